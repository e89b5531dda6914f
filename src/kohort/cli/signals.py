"""SIGINT and SIGTERM: the first requests an orderly end, the second ends the process."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


def stop_on_signal() -> asyncio.Event:
    """An event that the first signal sets. Later signals have their default effect."""
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
def received_signals() -> Iterator[list[int]]:
    """As `stop_on_signal`, without an event loop: the list gets the number of the first signal."""
    received: list[int] = []

    def caught(number: int, _frame: object) -> None:
        for handled in NUMBERS:
            signal.signal(handled, signal.SIG_DFL)
        received.append(number)

    before = {number: signal.signal(number, caught) for number in NUMBERS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def until(stop: asyncio.Event, source: AsyncIterator[T]) -> AsyncIterator[T]:
    """The items of `source` until `stop` is set."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            upcoming = asyncio.ensure_future(anext(source, None))
            await asyncio.wait({upcoming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not upcoming.done():
                upcoming.cancel()
                return
            item = upcoming.result()
            if item is None:
                return
            yield item
    finally:
        stopped.cancel()
