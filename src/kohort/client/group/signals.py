"""Signals that stop groups: every group of the process, and handlers that were there before.

One handler for each signal passes it on to all that listen, and then to the handler that it
replaced: a web server's, or the application's. The first signal restores the earlier handlers, and
so does closing the last group. Handlers that only end the process are not called: the default
action of the signal, Python's KeyboardInterrupt, and the cancellation by `asyncio.run`.
"""

import signal
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_listeners: Final[dict[int, dict[object, Callable[[], None]]]] = {}
"""Signal → token → function to call from the signal handler."""
_replaced: Final[dict[int, Any]] = {}
"""The handlers that were there before."""


def listen(
    signals: Iterable[signal.Signals], stop: Callable[[signal.Signals], None]
) -> Callable[[], None]:
    """Call `stop(signal)` at the first of the signals, from its handler; returns how to end it.

    Raises ValueError outside of the main thread.
    """
    token, caught = object(), tuple(signals)
    for number in caught:
        if number not in _listeners:
            _replaced[number] = signal.signal(number, _handle)
            _listeners[number] = {}
        _listeners[number][token] = partial(stop, number)

    def release() -> None:
        for number in caught:
            listening = _listeners.get(number, {})
            if listening.pop(token, None) is not None and not listening:
                _restore(number)

    return release


def _handle(number: int, frame: FrameType | None) -> None:
    before = _replaced.get(number)
    listening = list(_listeners.get(number, {}).values())
    _restore(number)
    for callback in listening:
        callback()
    if callable(before) and not _only_ends_the_process(before):
        before(number, frame)


def _restore(number: int) -> None:
    """Put the earlier handler back, unless another one has replaced ours."""
    _listeners.pop(number, None)
    before = _replaced.pop(number, signal.SIG_DFL)
    if signal.getsignal(number) is _handle:
        signal.signal(number, signal.SIG_DFL if before is None else before)


def _only_ends_the_process(handler: Any) -> bool:
    of_asyncio_run = getattr(getattr(handler, "func", None), "__module__", "") == "asyncio.runners"
    return handler is signal.default_int_handler or of_asyncio_run
