"""The batches of a segment and their index, as they are stored and appended to."""

from typing import Final

from kohort.log import scan
from kohort.log.aborted_index import TXNINDEX, AbortedIndex
from kohort.log.damage import CorruptLogError, Damage
from kohort.log.index import SegmentIndex
from kohort.log.stores import Store
from kohort.log.verified_ranges import VerifiedRanges
from kohort.protocol.batches import NO_TIMESTAMP, Buffer

MAX_SEGMENT_SIZE: Final = 2**31 - 1
"""Bytes, and offsets, that fit into a segment: its index counts in int32."""


class SegmentStorage:
    """Consecutive batches with a sparse index; `Segment` reads them."""

    __slots__ = (
        "_aborted", "_index", "_interval", "_max_timestamp", "_resumed", "_since_entry",
        "_verified", "base_offset", "created", "end_offset", "first_timestamp", "log",
        "max_timestamp_offset", "modified", "unsynced",
    )  # fmt: skip

    def __init__(
        self, base_offset: int, log: Store, index: SegmentIndex, interval: int = 4096
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        """Offset after the last one; of a segment that was found on disk, the next segment's base.
        """
        self.log = log
        self.first_timestamp = NO_TIMESTAMP
        """Max timestamp of the first batch: `segment.ms` counts from it."""
        self.created = self.modified = 0
        """Append times of its first and last batch (ms), as far as they are known."""
        self.unsynced = False
        """Appended to or cut since it was last made durable."""
        self._index = index
        self._aborted: AbortedIndex | None = None
        """None: not needed yet."""
        self._interval = interval
        self._resumed = not log.size
        """Whether index and timestamps are up to date, as those of the active segment always are.
        """
        self._max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        """Last offset of the first batch with the largest timestamp, once the index is read."""
        self._since_entry = 0
        self._verified = VerifiedRanges() if log.size else None
        """Ranges of a segment found on disk that were checked since; None if all of it was."""

    def __repr__(self) -> str:
        return f"<Segment [{self.base_offset}, {self.end_offset}) {self.log.size} bytes>"

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.log.size

    @property
    def aborted(self) -> AbortedIndex:
        """The transactions that a marker in this segment aborts."""
        if self._aborted is None:
            self._aborted = AbortedIndex(self.log.beside(TXNINDEX))
        return self._aborted

    # Writing

    def append(
        self, parts: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int, now: int
    ) -> None:
        """Write one batch of `size` bytes at the end.

        Raises OSError, and the segment is as before.
        """
        position = self.log.size
        self.unsynced = True  # a part of what fails is cut off again
        self.log.append(parts)
        self.modified = now
        if not position:
            self.created = now
        self.note(position, size, last_offset, max_timestamp)
        if self._verified is not None:
            self._verified.add(position, position + size, last_offset + 1)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Record a batch that is in the log: just appended, or found by recovery."""
        self.end_offset = last_offset + 1
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_entry > self._interval:
            base = self.base_offset
            self._index.add(
                last_offset - base, position, self._max_timestamp, self.max_timestamp_offset - base
            )
            self._since_entry = 0
        self._since_entry += size

    def seal(self) -> None:
        """Complete the index of a segment that is not appended to any more.

        Raises OSError if a part of a failed append cannot be cut off.
        """
        self.truncate(self.log.size)
        if self._max_timestamp >= 0:
            self._index.add_time(self._max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._index.write()

    def truncate(self, position: int) -> None:
        """Cut off what lies beyond the end that `recover` found. Raises OSError."""
        if self.log.truncate(position):
            # A power loss could bring it back, behind which the next segment does not fit.
            self.unsynced = True

    def close(self) -> None:
        """Close the files, after writing the index as far as possible."""
        self._index.write()
        self._index.close()
        if self._aborted is not None:
            self._aborted.close()
        self.log.close()

    # Damage

    def nothing_from(self, offset: int) -> CorruptLogError:
        """The error of a segment that has no batch with `offset` or a later one, though it must."""
        return self._corrupt(self.log.size, offset, "no record from there on is in the segment")

    def _validate_end(self, valid_end: int, next_offset: int) -> None:
        if valid_end < self.log.size:
            raise self._corrupt(valid_end, next_offset, "no valid batch is there")
        if next_offset != self.end_offset:
            raise self._corrupt(
                valid_end,
                next_offset,
                f"the records up to offset {self.end_offset - 1} are missing",
            )

    def _corrupt(self, position: int, offset: int, problem: str) -> CorruptLogError:
        file = self.log.file() or repr(self)
        return CorruptLogError(Damage(file=file, position=position, offset=offset, what=problem))

    def _corrupt_from(self, start: int) -> CorruptLogError:
        """The damage after `start`, where a valid batch begins."""
        valid_end, next_offset = start, self.base_offset
        for _, end, _, last_offset, _ in scan.extents(self.log, start, self.base_offset):
            valid_end, next_offset = end, last_offset + 1
        return self._corrupt(valid_end, next_offset, "no valid batch is there")
