"""Ranges of a segment found on disk that were verified since the process started.

A batch is checked once, by its CRC and the offsets around it, when it is first read. So damage
from a time when no server ran is never served, and a second read costs no check.
"""

from bisect import insort
from typing import Final, NamedTuple

_MAX_RANGES: Final = 64
"""Ranges that are kept; beyond that the shortest is dropped, and checked again when it is read."""


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
        for verified in self._ranges:
            if verified.start <= position <= verified.end:
                return verified
        return None

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Record that every batch from position `start` to `end` is valid."""
        touching = [other for other in self._ranges if other.start <= end and start <= other.end]
        for other in touching:
            self._ranges.remove(other)
            start = min(start, other.start)
            if other.end > end:
                end, next_offset = other.end, other.next_offset
        insort(self._ranges, VerifiedRange(start, end, next_offset))
        if len(self._ranges) > _MAX_RANGES:
            self._ranges.remove(min(self._ranges, key=_length))

    def is_all(self, size: int) -> bool:
        """Whether one range covers the whole segment."""
        return len(self._ranges) == 1 and self._ranges[0][:2] == (0, size)


def _length(verified: VerifiedRange) -> int:
    return verified.end - verified.start
