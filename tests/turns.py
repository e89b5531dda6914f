"""How long the event loop is held by one turn, in the same ms on each machine."""

import asyncio
import gc
import struct
from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any, TypeVar

import heap

_T = TypeVar("_T")

BOUND_MS = 50
"""CPU time after which the loop must have turned, on a machine that takes `REFERENCE_MS`."""
REFERENCE_MS = 2.5
"""CPU time of `_reference_work` where nothing else runs, on a core that is quick enough for us."""


def adjusted_ms(cpu_s: float) -> float:
    """CPU time (s) that was spent just now, as ms of a machine to which `BOUND_MS` applies.

    A slower core takes more CPU time for the same work. So does a core that is shared: by its
    caches, by the other thread of the core, by other virtual machines. The same reference work is
    done here and now, and what it takes more than there is taken off. A quicker machine is held to
    `BOUND_MS` as it is.
    """
    gc.disable()  # a collection would look at all that the work has left
    taken_ms = max(_cpu_s(_reference_work) for _ in range(5)) * 1000
    gc.enable()
    return cpu_s * 1000 / max(taken_ms / REFERENCE_MS, 1)


def cpu_ms(work: Callable[[], object]) -> float:
    """The CPU time of this thread for `work`, as `adjusted_ms` has it."""
    return adjusted_ms(_cpu_s(work))


async def longest_turn_ms(
    work: Coroutine[Any, Any, _T], clock: Callable[[], float] = thread_time
) -> tuple[float, _T]:
    """The most CPU time of the loop's thread in one turn, as `adjusted_ms` has it, and what `work`
    gives.

    With `process_time` as the clock, it also counts what other threads compute between two turns:
    the loop waits for the interpreter then, but on a busy machine it may also wait for a core.
    """
    heap.hold()  # what was there before is none of the work's
    task = asyncio.ensure_future(work)
    longest, since = 0.0, clock()
    while not task.done():
        await asyncio.sleep(0)
        now = clock()
        longest, since = max(longest, now - since), now
    return adjusted_ms(longest), task.result()


def _cpu_s(work: Callable[[], object]) -> float:
    begun = thread_time()
    work()
    return thread_time() - begun


def _reference_work() -> list[str]:
    """Make, pack and sort some thousands of objects, as the work of handlers does."""
    made = {f"topic-{n}": (n, str(n)) for n in range(8_000)}
    b"".join(struct.pack(">ih", n, len(text)) + text.encode() for n, text in made.values())
    return sorted(made, key=made.__getitem__, reverse=True)
