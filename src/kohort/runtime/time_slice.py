"""Long work on the event loop, in slices: others get a turn every few milliseconds."""

import asyncio
from time import perf_counter
from typing import Final

SLICE_S: Final = 0.005


class TimeSlices:
    """Gives way to whatever else waits for the loop, at most every 5 ms."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = perf_counter()

    async def give_way(self) -> None:
        """Return at once, or after others had their turn if the slice is used up."""
        if perf_counter() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = perf_counter()
