"""Long computations beside the event loop: one at a time, in a thread of their own.

One thread bounds the memory that such work takes, and leaves the other cores to the loop. Python
gives the loop the interpreter every 5 ms while the thread computes.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Final, TypeVar

_T = TypeVar("_T")

on_work: Final[ContextVar[Callable[[float], None] | None]] = ContextVar("on_work", default=None)
"""Called on the loop with the seconds of processor time that the thread worked for this context."""


class HeavyWork:
    """Runs functions one after the other, in the order in which they were given."""

    def __init__(self) -> None:
        # The thread starts with the first function.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kohort-heavy")

    async def run(self, function: Callable[[], _T]) -> _T:
        """The result of `function`. A caller that is cancelled first takes its function back."""
        loop, count = asyncio.get_running_loop(), on_work.get()
        if count is None:
            return await loop.run_in_executor(self._thread, function)
        seconds: list[float] = []
        try:
            return await loop.run_in_executor(self._thread, _measured, function, seconds)
        finally:
            count(sum(seconds))

    def close(self) -> None:
        """Take back what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _measured(function: Callable[[], _T], seconds: list[float]) -> _T:
    started = time.thread_time()
    try:
        return function()
    finally:
        seconds.append(time.thread_time() - started)
