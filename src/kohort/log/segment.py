"""A segment: consecutive batches from its base offset up to the next segment, with a sparse index.

Only the last segment of a log, the active one, is appended to; the others never change. A segment
is named by its base offset and holds only batches, so any tool that reads Kafka's `.log` files
reads it.

A position is found in up to three steps. A read usually starts where another one ended, and such
positions are remembered. Otherwise the index gives a batch shortly before, from which headers are
stepped over.
"""

from collections.abc import Iterator
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.log import scan
from kohort.log.damage import CorruptLogError
from kohort.log.index import SegmentIndex
from kohort.log.segment_recovery import RecoverableSegment
from kohort.log.stores import Records, Store
from kohort.log.undamaged_batches import undamaged_batches
from kohort.protocol.batches import HEADER_SIZE, Header, read_header

_MAX_REMEMBERED: Final = 16
"""Positions where reads ended."""
_MAX_CHECKED_BATCHES: Final = 4_000
"""Batches that one read checks at most (some 6 ms): a longer read ends there."""
_CHECK_AHEAD_BYTES: Final = 64 * 1024
"""Bytes that are checked at once where headers are read in a row."""


class Segment(RecoverableSegment):
    """One segment of a log."""

    __slots__ = ("_remembered",)

    def __init__(
        self, base_offset: int, log: Store, index: SegmentIndex, interval: int = 4096
    ) -> None:
        super().__init__(base_offset, log, index, interval)
        self._remembered: dict[int, int] | None = None
        """Position of the batch that holds or follows an offset, where reads ended."""

    def take_back(self, end_offset: int) -> None:
        """Remove the batches from `end_offset` on. Must be repeated if it raises OSError."""
        position = self.position(end_offset)
        self._index.cut(end_offset - self.base_offset)
        self.aborted.cut(end_offset)
        self._remembered = None
        self._since_entry = 0
        self.truncate(position)
        self.recover(everything=False, gaps=True)

    # Reading

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, end: int | None = None
    ) -> Records:
        """Whole batches from the one that holds or follows `offset` up to position `end`."""
        remembered = self._remembered
        position = remembered.get(offset) if remembered is not None else None
        if self._verified is not None:
            position, good = self._verified_from(offset, position, max_bytes)
            max_bytes = min(max_bytes, good)
        elif position is None:
            position = self.position(offset)
        if end is not None:
            max_bytes = min(max_bytes, end - position)
        available = self.log.size - position
        if available <= max_bytes:
            self._remember(self.end_offset, position + available)
            return self.log.take(position, available)
        return self._read_some(position, max_bytes, at_least_one)

    def _read_some(self, position: int, max_bytes: int, at_least_one: bool) -> Records:
        limit = start = position + self.log.reach(position, max_bytes)
        while start > position:
            start = self._entry_before(start - HEADER_SIZE, position)
            # Only the batches that follow the entry have to be stepped over.
            whole = scan.whole_batches(self.log, start, limit)
            if whole is not None:
                end, next_offset = whole
                self._remember(next_offset, end)
                return self.log.take(position, end - position)
        if not at_least_one:
            return b""
        return self.log.take(position, read_header(self.log.read(position, HEADER_SIZE)).size)

    def _remember(self, offset: int, position: int) -> None:
        remembered = self._remembered
        if remembered is None:
            remembered = self._remembered = {}
        elif len(remembered) >= _MAX_REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[offset] = position

    def next_offset_after(self, start: int, end: int) -> int:
        """The offset after the last one of the batch that ends at position `end`.

        All batches from the one at `start` up to there are whole.
        """
        indexed = self._indexed(end - 1, column=1)
        for position, header in self._headers(max(start, indexed)):
            if position + header.size >= end:
                return header.last_offset + 1
        return self.end_offset

    # Positions

    def position(self, offset: int) -> int:
        """Position of the batch that holds or follows `offset`.

        The size of the segment if there is none. Raises CorruptLogError if the batch is damaged,
        WrongIndexError, OSError.
        """
        if not self._resumed:
            self.resume()
        try:
            for position, header in self._headers(self._indexed(offset - self.base_offset)):
                if header.last_offset >= offset:
                    return position
        except CorruptLogError:
            if self._verified is None:
                raise
            return self._whole_from(offset)[0]
        return self.log.size

    def _indexed(self, target: int, column: int = 0) -> int:
        """Position of the last indexed batch up to `target`; 0 if there is none.

        `target` is a relative offset, or with the column 1 a position. The one before is named in
        place of a damaged batch.
        """
        entry = self._index.offsets.floor(target, column)
        if entry is not None and not self._is_batch(entry):
            before = self._index.offsets.floor(entry[0] - 1)
            if self._is_damaged(entry[1], before):
                entry = before
            else:
                self._mend_index()
                entry = self._index.offsets.floor(target, column)
        return 0 if entry is None else entry[1]

    def _entry_before(self, limit: int, position: int) -> int:
        """Position of the last indexed batch up to `limit`; at least `position`."""
        while True:
            entry = self._index.offsets.floor(limit, column=1)
            if entry is None or entry[1] <= position:
                return position
            if self._is_batch(entry):
                return entry[1]
            self._mend_index()

    def offset_before_time(self, timestamp: int) -> int:
        """An offset below which no record has that timestamp (ms) or a later one."""
        earlier = self._index.times.floor(timestamp - 1)
        if earlier is not None and not self._is_time(earlier):
            self._mend_index()
            earlier = self._index.times.floor(timestamp - 1)
        return self.base_offset if earlier is None else self.base_offset + earlier[1]

    # Headers

    def headers(self, position: int = 0) -> Iterator[tuple[int, Header]]:
        """(position, header) of every batch from `position` on. Raises CorruptLogError."""
        verified_end = position
        for start, header in self._headers(position):
            if self._verified is not None and start + header.size > verified_end:
                size = max(header.size, _CHECK_AHEAD_BYTES)
                verified_end = start + self._verify(start, size, header.base_offset)
            yield start, header

    def _headers(self, position: int) -> Iterator[tuple[int, Header]]:
        """`headers` as they are on disk, not verified."""
        try:
            yield from scan.headers(self.log, position)
        except KafkaError as error:
            if error.code is not ErrorCode.corrupt_message:
                raise
            raise self._corrupt_from(position) from error

    def epochs(self) -> Iterator[tuple[int, int]]:
        """Leader epoch and base offset of at least the first batch of each epoch.

        Raises CorruptLogError, OSError.
        """
        last_epoch = self.last_epoch
        for _, header in self.headers():
            yield header.partition_leader_epoch, header.base_offset
            if header.partition_leader_epoch == last_epoch:
                break

    @property
    def last_epoch(self) -> int:
        """Leader epoch of its last batch, -1 if it has none. Raises CorruptLogError, OSError."""
        if not self.log.size:
            return -1
        position = self.position(self.end_offset - 1)
        return read_header(self.log.read(position, HEADER_SIZE)).partition_leader_epoch

    # Verification of a segment that was found on disk

    def _verified_from(self, offset: int, position: int | None, count: int) -> tuple[int, int]:
        """Position of the batch that holds or follows `offset`, and the valid bytes from there on.

        `position` is that position if it is known; `count` is the number of requested bytes.
        Raises CorruptLogError if the batch is damaged.
        """
        try:
            if position is None:
                position = self.position(offset)
                if self._verified is None:  # the index was rebuilt, which checks all batches
                    return position, self.log.size - position
            return position, self._verify(position, count, offset)
        except CorruptLogError:
            return self._whole_from(offset)

    def _verify(self, position: int, count: int, offset: int) -> int:
        """Check the part of `count` bytes from the batch at `position` that was not checked yet.

        The batch is the first one that does not end before `offset`. Returns the number of valid
        bytes from there on: fewer than `count` where that is much work, or where damage follows.
        Raises CorruptLogError if the batch itself is not valid.
        """
        verified = self._verified
        assert verified is not None
        end = min(position + max(count, 1), self.log.size)
        checked_range = verified.around(position)
        if (checked_range is None or checked_range.start == position) and self._begins_after(
            position, offset
        ):
            start, next_offset = self._indexed(offset - self.base_offset), 0
        elif checked_range is None:
            start, next_offset = self._indexed(position, column=1), 0
        elif checked_range.end >= end:
            return checked_range.end - position
        else:
            start, next_offset = checked_range.end, checked_range.next_offset
        checked = scan.check(
            self.log, start, next_offset, end, max_batches=_MAX_CHECKED_BATCHES, needed=position
        )
        # The offset of a batch is known to be true by the batch behind it.
        end, next_offset = checked.last, checked.before_last
        if checked.is_end:
            if checked.valid_end == self.log.size and checked.next_offset == self.end_offset:
                end, next_offset = checked.valid_end, checked.next_offset
            elif end <= position:
                self._validate_end(checked.valid_end, checked.next_offset)
        verified.add(start, end, next_offset)
        if verified.is_all(self.log.size):
            self._verified = None
        return end - position

    def _begins_after(self, position: int, offset: int) -> bool:
        """Whether the batch at `position` begins behind `offset`.

        The batches before it have to be checked then: one of them may hold `offset`.
        """
        return 0 < position < self.log.size and self._offset_at(position) > offset

    def _is_damaged(self, position: int, before: tuple[int, int] | None) -> bool:
        """Whether a batch that is not whole begins at `position`, by the index entry before it.

        If neither, the index is wrong.
        """
        if self._verified is None or (before is not None and not self._is_batch(before)):
            return False
        valid_end = start = 0 if before is None else before[1]
        for start_of_batch, header in self._whole(start):
            if start_of_batch >= position:
                return start_of_batch > position == valid_end
            valid_end = start_of_batch + header.size
        return valid_end == position

    def _whole_from(self, offset: int) -> tuple[int, int]:
        """`_verified_from` of a segment in which a batch beside `offset` is damaged."""
        assert self._verified is not None
        valid_end = self._indexed(offset - self.base_offset)
        next_offset, first = self._offset_at(valid_end), None
        for start, header in self._whole(valid_end):
            if header.last_offset >= offset:
                # What lies between the two is damaged, and may be what holds `offset`.
                if start > valid_end and (first is not None or header.base_offset > offset):
                    break
                if first is None:
                    first = start
            valid_end, next_offset = start + header.size, header.last_offset + 1
            if first is not None and valid_end - first >= _CHECK_AHEAD_BYTES:
                break
        if first is None:
            raise self._corrupt(valid_end, next_offset, "no valid batch is there")
        self._verified.add(first, valid_end, next_offset)
        return first, valid_end - first

    def _whole(self, start: int) -> Iterator[tuple[int, Header]]:
        """(position, header) of the whole batches from `start` on: 0, or where the index names one.

        Raises OSError.
        """
        return undamaged_batches(self.log, start, self._offset_at(start), self.end_offset)

    def _offset_at(self, position: int) -> int:
        """Base offset of the batch at `position`, or of the segment at its start."""
        if not position:
            return self.base_offset
        return read_header(self.log.read(position, HEADER_SIZE)).base_offset
