"""How long the event loop is held by one turn."""

import asyncio
from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any, TypeVar

import heap

_T = TypeVar("_T")

BOUND_MS = 50
"""CPU time after which the loop must have turned."""


async def longest_turn_ms(
    work: Coroutine[Any, Any, _T], clock: Callable[[], float] = thread_time
) -> tuple[float, _T]:
    """The most CPU time (ms) of the loop's thread in one turn, and what `work` gives.

    A busy machine takes more time, but not more CPU time. With `process_time` as the clock, it also
    counts what other threads compute between two turns: the loop waits for the interpreter then,
    but on a busy machine it may also wait for a core.
    """
    heap.hold()  # what was there before is none of the work's
    task = asyncio.ensure_future(work)
    longest, since = 0.0, clock()
    while not task.done():
        await asyncio.sleep(0)
        now = clock()
        longest, since = max(longest, now - since), now
    return longest * 1000, task.result()
