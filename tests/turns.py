"""How long the event loop has to wait: for its own work, and for threads beside it."""

import asyncio
import gc
from collections.abc import Coroutine
from time import process_time
from typing import Any, TypeVar

_T = TypeVar("_T")

BOUND_MS = 50
"""CPU time after which the loop must have turned."""


async def longest_turn_ms(work: Coroutine[Any, Any, _T]) -> tuple[float, _T]:
    """The most CPU time (ms) of this process between two turns of the loop, and what `work` gives.

    It counts what threads compute meanwhile, too: the loop waits for the interpreter. A busy
    machine takes more time, but not more CPU time.
    """
    gc.collect()
    gc.freeze()  # what the tests before left behind is none of the work's
    task = asyncio.ensure_future(work)
    try:
        longest, since = 0.0, process_time()
        while not task.done():
            await asyncio.sleep(0)
            now = process_time()
            longest, since = max(longest, now - since), now
        return longest * 1000, task.result()
    finally:
        gc.unfreeze()
