"""Which parts of a segment that was found on disk were checked since the process started.

A batch is checked once, by its CRC and the offsets around it, when it is first read. So damage
that came about while no server ran is never served, and what was checked costs nothing again.
"""

from bisect import insort
from typing import Final, NamedTuple

_MAX_RANGES: Final = 64
"""Ranges that are remembered; the shortest are forgotten, and checked again when read again."""


class VerifiedRange(NamedTuple):
    """Bytes of a segment, from one batch's start to another's end."""

    start: int
    end: int
    next_offset: int
    """Offset after the last one in it."""


class VerifiedRanges:
    """The ranges of one segment, in order, none touching another."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[VerifiedRange] = []

    def around(self, position: int) -> VerifiedRange | None:
        """The range that holds `position`, or ends there."""
        for found in self._ranges:
            if found.start <= position <= found.end:
                return found
        return None

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Remember that all from `start` to `end` is good."""
        touching = [each for each in self._ranges if each.start <= end and start <= each.end]
        for each in touching:
            self._ranges.remove(each)
            start = min(start, each.start)
            if each.end > end:
                end, next_offset = each.end, each.next_offset
        insort(self._ranges, VerifiedRange(start, end, next_offset))
        if len(self._ranges) > _MAX_RANGES:
            self._ranges.remove(min(self._ranges, key=_length))

    def is_all(self, size: int) -> bool:
        """Whether one range covers the whole segment."""
        return len(self._ranges) == 1 and self._ranges[0][:2] == (0, size)


def _length(found: VerifiedRange) -> int:
    return found.end - found.start
