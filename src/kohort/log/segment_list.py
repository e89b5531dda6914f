"""The segments of one log: which one has an offset, and when a new one begins."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kohort.log.aborted_index import AbortedIndex
from kohort.log.backing import Backing
from kohort.log.segment import Segment
from kohort.log.segment_storage import MAX_SEGMENT_SIZE
from kohort.util.time_slice import TimeSlices


class SegmentList(list[Segment]):
    """The segments of one log in order, the last one active; changed by the methods below alone."""

    # A list itself, and not beside one: there may be very many logs.
    __slots__ = ("_backing", "active", "changes", "cuts", "roll_bytes", "roll_ms", "size")

    def __init__(self, segments: Sequence[Segment], backing: Backing) -> None:
        """`segments` are in order, the last one ready to append."""
        super().__init__(segments)
        self._backing = backing
        self.active = segments[-1]
        """The one that is appended to."""
        self.size = sum(segment.size for segment in segments)
        """Bytes of all batches."""
        self.changes = 0
        """Counts removals, replacements and cuts of segments, and moves of the start offset."""
        self.cuts = 0
        """Counts cuts, which may make a segment active again."""
        self.roll_bytes = MAX_SEGMENT_SIZE
        """Bytes of a segment from which on a new one begins."""
        self.roll_ms = 0
        """Time from the first batch of a segment on after which a new one begins."""

    # Lookups

    def holding(self, offset: int) -> Segment:
        """The segment whose range has `offset`; the first one if it lies before all."""
        return self[self._index(offset)]

    def since(self, offset: int) -> list[Segment]:
        """The segments from `holding(offset)` on."""
        return self[self._index(offset) :]

    def _index(self, offset: int) -> int:
        return max(bisect_right(self, offset, key=_base_offset) - 1, 0)

    def has_run(self, segments: Sequence[Segment]) -> bool:
        """Whether these are segments of the log, one after the other."""
        first = self._index(segments[0].base_offset)
        return self[first : first + len(segments)] == list(segments)

    async def copied_aborted_indexes(self) -> list[tuple[int, AbortedIndex]]:
        """The base offset of each segment with aborted transactions, and a copy of their index."""
        copies, slices = [], TimeSlices()
        for segment in tuple(self):
            if segment.aborted.store.size:
                copies.append((segment.base_offset, segment.aborted.copy()))
            await slices.give_way()
        return copies

    # The active segment

    def is_full(self, size: int, last_offset: int, timestamp: int, now: int) -> bool:
        """Whether a batch belongs into a new segment (Kafka's LogSegment.shouldRoll)."""
        active = self.active
        if (
            active.log.size + size > self.roll_bytes
            or last_offset - active.base_offset > MAX_SEGMENT_SIZE
        ):
            return True
        first = active.first_timestamp
        return (timestamp - first if first >= 0 else now - active.created) > self.roll_ms

    def roll(self, base_offset: int, index_interval: int) -> Segment:
        """Begin a new segment at `base_offset`; `index_interval` in bytes."""
        self.active.seal()
        self._backing.sealed(self.active)
        self.active = self._backing.new_segment(base_offset, index_interval)
        self.append(self.active)
        return self.active

    # Changes

    def remove_first(self, count: int) -> list[Segment]:
        """Take the first `count` segments, but not all, off the list; their files stay."""
        self.changes += 1
        removed = self[:count]
        del self[:count]
        self.size -= sum(segment.size for segment in removed)
        return removed

    def replace(self, sources: Sequence[Segment], result: Segment) -> None:
        """Put the compacted `result` in the place of `sources`, on the disk too. Raises OSError."""
        self.changes += 1
        first = self._index(sources[0].base_offset)
        compacted = self._backing.finish_swap(sources, result)
        self[first : first + len(sources)] = [compacted]
        self.size += result.size - sum(segment.size for segment in sources)

    def truncate(self, end_offset: int) -> None:
        """Remove the batches from `end_offset` on, which one begins with.

        Must be repeated if it raises OSError.
        """
        self.changes += 1
        self.cuts += 1
        while len(self) > 1 and self.active.base_offset >= end_offset:
            if (remove := self._backing.discard(self[-1:])) is not None:
                remove()
            del self[-1]
            self.active = self[-1]
        self.active.take_back(end_offset)
        self.size = sum(segment.size for segment in self)

    # Files

    def unsynced_files(self) -> Iterable[str]:
        """The files written since the last call, the newest first."""
        for segment in reversed(self):
            if segment.size and not segment.unsynced:
                break
            if (path := segment.log.file()) is not None:
                yield path
            segment.unsynced = False

    def close(self) -> None:
        """Close all files."""
        for segment in self:
            segment.close()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
