"""Long computations beside the event loop: one at a time, in a thread of their own.

One thread bounds the memory that such work takes, and leaves the other cores to the loop. Python
gives the loop the interpreter every 5 ms while the thread computes.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


class HeavyWork:
    """Runs functions one after the other, in the order in which they were given."""

    def __init__(self) -> None:
        # The thread starts with the first function.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kohort-heavy")

    async def run(self, function: Callable[[], _T]) -> _T:
        """The result of `function`. A caller that is cancelled first takes its function back."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """Take back what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
