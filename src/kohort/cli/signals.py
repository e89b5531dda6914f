"""SIGINT and SIGTERM: the first requests an orderly end, the second ends the process."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


def stop_on_signal() -> asyncio.Event:
    """Set by the first signal; then signals do what they do by default."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def caught() -> None:
        for number in NUMBERS:
            loop.remove_signal_handler(number)
        stop.set()

    for number in NUMBERS:
        loop.add_signal_handler(number, caught)
    return stop


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """The same without an event loop: the number of the first signal, once it has come."""
    came: list[int] = []

    def caught(number: int, _frame: object) -> None:
        for each in NUMBERS:
            signal.signal(each, signal.SIG_DFL)
        came.append(number)

    before = {number: signal.signal(number, caught) for number in NUMBERS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def until(stop: asyncio.Event, source: AsyncIterator[T]) -> AsyncIterator[T]:
    """What comes from `source` before `stop` is set."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            coming = asyncio.ensure_future(anext(source, None))
            await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            item = coming.result()
            if item is None:
                return
            yield item
    finally:
        stopped.cancel()
