"""SIGINT and SIGTERM as a wish: the first asks for a clean end, the second ends the process."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import TypeVar

T = TypeVar("T")


def stop_on_signal() -> asyncio.Event:
    """Set by the first signal; then signals do what they do by default."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def caught() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, caught)
    return stop


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
