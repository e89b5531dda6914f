"""Long work on the event loop, in slices: others get a turn every few milliseconds."""

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import Final, TypeVar

SLICE_S: Final = 0.005
_PER_CHECK: Final = 20
"""Elements between two looks at the time."""

T = TypeVar("T")


class TimeSlices:
    """Gives way to whatever else waits for the loop, at most every 5 ms."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether the slice is used up."""
        return perf_counter() - self._since > SLICE_S

    async def give_way(self) -> None:
        """Return at once, or after others had their turn if the slice is used up."""
        if self.is_over:
            await asyncio.sleep(0)
            self._since = perf_counter()


async def in_slices(steps: Generator[None, None, T]) -> T:
    """What `steps` returns, giving way to others in between."""
    slices = TimeSlices()
    while True:
        try:
            for _ in range(_PER_CHECK):
                next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
        await slices.give_way()
