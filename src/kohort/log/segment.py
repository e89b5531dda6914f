"""A segment: consecutive batches from its base offset up to the next segment, with a sparse index.

Only the last segment of a log, the active one, is appended to; the others never change. A segment
is named by its base offset and holds only batches, so any tool that reads Kafka's `.log` files
reads it.

A position is found in up to three steps. A read usually starts where another one ended, and such
positions are remembered. Otherwise the index gives a batch shortly before, from which headers are
stepped over.
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.log import lookup, scan, whole
from kohort.log.aborted_index import TXNINDEX, AbortedIndex
from kohort.log.checked import CheckedRanges
from kohort.log.damage import CorruptLogError, Damage
from kohort.log.index import SegmentIndex
from kohort.log.lookup import Lookup
from kohort.log.storage import Records, Store
from kohort.protocol.batches import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Buffer,
    Header,
    read_header,
)

logger = logging.getLogger("kohort.log")

_REMEMBERED = 16
_CHECKED_AT_ONCE = 4_000
"""Batches that one read checks at most (some 6 ms): a longer read ends there."""
_CHECKED_AHEAD = 64 * 1024
"""Bytes that are checked at once where headers are read in a row."""
_REBUILT_AT_ONCE = 2 << 20
"""Bytes of a segment whose index a read rebuilds itself (some 16 ms)."""
_REPORTED_BYTES = 1 << 20
LARGEST = 2**31 - 1
"""Bytes, and offsets, that fit into a segment: its index counts in int32."""


Progress = Callable[[int], None]
"""Called with the bytes that were checked since its last call; it may raise to end the check."""


def unobserved(checked: int) -> None:
    """The `Progress` of a check that nobody observes."""


class WrongIndexError(KafkaError):
    """The index of a segment is wrong, and clients get KAFKA_STORAGE_ERROR until it is rebuilt."""

    def __init__(self, segment: "Segment") -> None:
        file = segment.log.file() or repr(segment)
        super().__init__(
            ErrorCode.kafka_storage_error,
            f"the index of {file} is wrong; it is rebuilt, and the log is opened again",
        )
        self.segment = segment


class SegmentState(NamedTuple):
    """What is known of a segment at one moment, without its batches."""

    end_offset: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    created: int
    modified: int
    offsets: bytes
    """Its index, by offset."""
    times: bytes
    """Its index, by time."""


class Segment:
    """One segment of a log."""

    __slots__ = (
        "_aborted", "_index", "_interval", "_max_timestamp", "_max_timestamp_offset", "_remembered",
        "_resumed", "_since_entry",
        "_unchecked", "base_offset", "created", "end_offset", "first_timestamp", "log", "modified",
        "unsynced",
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
        """When its first and its last batch were appended (ms), as far as is known."""
        self.unsynced = False
        """Appended to since it was last made durable."""
        self._index = index
        self._aborted: AbortedIndex | None = None
        """None: not needed yet."""
        self._interval = interval
        self._resumed = not log.size
        """Whether index and timestamps are up to date, as those of the active segment always are.
        """
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._since_entry = 0
        self._remembered: dict[int, int] | None = None
        self._unchecked = CheckedRanges() if log.size else None
        """What of a segment that was found on disk was checked since; None if all of it was."""

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

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of its batches (ms), -1 if there is none."""
        if not self._resumed:
            self.resume()
        return self._max_timestamp

    def state(self) -> SegmentState:
        """What `restore` takes: its batches up to now. Raises OSError."""
        self._index.write()
        offsets, times = self._index.offsets.store, self._index.times.store
        return SegmentState(
            self.end_offset,
            self.first_timestamp,
            self.max_timestamp,
            self._max_timestamp_offset,
            self.created,
            self.modified,
            offsets.read(0, offsets.size),
            times.read(0, times.size),
        )

    def restore(self, state: SegmentState) -> None:
        """Be as a segment was that had this state; the index has its rows already."""
        self.end_offset = state.end_offset
        self.first_timestamp = state.first_timestamp
        self.created, self.modified = state.created, state.modified
        self._max_timestamp = state.max_timestamp
        self._max_timestamp_offset = state.max_timestamp_offset

    # Writing

    def append(
        self, parts: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int, now: int
    ) -> None:
        """Write one batch of `size` bytes at the end.

        Raises OSError, and the segment is as before.
        """
        position = self.log.size
        self.log.append(parts)
        self.unsynced = True
        self.modified = now
        if not position:
            self.created = now
        self.note(position, size, last_offset, max_timestamp)
        if self._unchecked is not None:
            self._unchecked.add(position, position + size, last_offset + 1)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Record a batch that is in the log: just appended, or found by recovery."""
        self.end_offset = last_offset + 1
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._since_entry > self._interval:
            base = self.base_offset
            self._index.add(
                last_offset - base, position, self._max_timestamp, self._max_timestamp_offset - base
            )
            self._since_entry = 0
        self._since_entry += size

    def seal(self) -> None:
        """Complete the index of a segment that is not appended to any more."""
        if self._max_timestamp >= 0:
            self._index.add_time(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
        self._index.write()

    # Reading

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, end: int | None = None
    ) -> Records:
        """Whole batches from the one that holds or follows `offset` up to position `end`."""
        remembered = self._remembered
        position = remembered.get(offset) if remembered is not None else None
        if self._unchecked is not None:
            position, good = self._checked(offset, position, max_bytes)
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
            found = scan.whole_batches(self.log, start, limit)
            if found is not None:
                end, next_offset = found
                self._remember(next_offset, end)
                return self.log.take(position, end - position)
        if not at_least_one:
            return b""
        return self.log.take(position, read_header(self.log.read(position, HEADER_SIZE)).size)

    def _entry_before(self, limit: int, position: int) -> int:
        """Position of the last indexed batch up to `limit`; at least `position`."""
        while True:
            entry = self._index.offsets.floor(limit, column=1)
            if entry is None or entry[1] <= position:
                return position
            if self._is_batch(entry):
                return entry[1]
            self._mend_index()

    def _remember(self, offset: int, position: int) -> None:
        remembered = self._remembered
        if remembered is None:
            remembered = self._remembered = {}
        elif len(remembered) >= _REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[offset] = position

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
            if self._unchecked is None:
                raise
            return self._whole_from(offset)[0]
        return self.log.size

    def offset_behind(self, start: int, end: int) -> int:
        """The offset after the last one of the batch that ends at position `end`.

        All batches from the one at `start` up to there are whole.
        """
        indexed = self._indexed(end - 1, column=1)
        for position, header in self._headers(max(start, indexed)):
            if position + header.size >= end:
                return header.last_offset + 1
        return self.end_offset

    def _indexed(self, target: int, column: int = 0) -> int:
        """Where the last batch starts that the index names, of those up to `target`; 0 if none.

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

    def _is_damaged(self, position: int, before: tuple[int, int] | None) -> bool:
        """Whether a batch that is not whole begins at `position`, by the index entry before it.

        If neither, the index is wrong.
        """
        if self._unchecked is None or (before is not None and not self._is_batch(before)):
            return False
        reached = start = 0 if before is None else before[1]
        for at, header in self._whole(start):
            if at >= position:
                return at > position == reached
            reached = at + header.size
        return reached == position

    def headers(self, position: int = 0) -> Iterator[tuple[int, Header]]:
        """(position, header) of every batch from `position` on. Raises CorruptLogError."""
        checked = position
        for found, header in self._headers(position):
            if self._unchecked is not None and found + header.size > checked:
                size = max(header.size, _CHECKED_AHEAD)
                checked = found + self._check(found, size, header.base_offset)
            yield found, header

    def _headers(self, position: int) -> Iterator[tuple[int, Header]]:
        """`headers` as they are on disk, unchecked."""
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

    # Checking what was found on disk

    def _checked(self, offset: int, position: int | None, count: int) -> tuple[int, int]:
        """Position of the batch that holds or follows `offset`, and how many bytes there are good.

        `position` is that position if it is known; `count` is the number of bytes that are wanted.
        Raises CorruptLogError if the batch is damaged.
        """
        try:
            if position is None:
                position = self.position(offset)
            return position, self._check(position, count, offset)
        except CorruptLogError:
            return self._whole_from(offset)

    def _whole_from(self, offset: int) -> tuple[int, int]:
        """`_checked` of a segment in which a batch beside `offset` is damaged."""
        assert self._unchecked is not None
        reached = self._indexed(offset - self.base_offset)
        next_offset, first = self._offset_at(reached), None
        for at, header in self._whole(reached):
            if header.last_offset >= offset:
                # What lies between the two is damaged, and may be what holds `offset`.
                if at > reached and (first is not None or header.base_offset > offset):
                    break
                if first is None:
                    first = at
            reached, next_offset = at + header.size, header.last_offset + 1
            if first is not None and reached - first >= _CHECKED_AHEAD:
                break
        if first is None:
            raise self._corrupt(reached, next_offset, "no valid batch is there")
        self._unchecked.add(first, reached, next_offset)
        return first, reached - first

    def _whole(self, start: int) -> Iterator[tuple[int, Header]]:
        """(position, header) of the whole batches from `start` on: 0, or where the index names one.

        Raises OSError.
        """
        return whole.batches(self.log, start, self._offset_at(start), self.end_offset)

    def _offset_at(self, position: int) -> int:
        """Base offset of the batch at `position`, or of the segment at its start."""
        if not position:
            return self.base_offset
        return read_header(self.log.read(position, HEADER_SIZE)).base_offset

    def _check(self, position: int, count: int, offset: int) -> int:
        """Check what of the `count` bytes from the batch at `position` was not checked yet.

        It is the first one that does not end before `offset`. Returns how many bytes from there on
        are good: fewer where that is much work, or where damage follows. Raises CorruptLogError if
        not even one batch is.
        """
        checked = self._unchecked
        assert checked is not None
        end = min(position + max(count, 1), self.log.size)
        known = checked.around(position)
        if (known is None or known.start == position) and self._is_behind(position, offset):
            start, next_offset = self._indexed(offset - self.base_offset), 0
        elif known is None:
            start, next_offset = self._indexed(position, column=1), 0
        elif known.end >= end:
            return known.end - position
        else:
            start, next_offset = known.end, known.next_offset
        found = scan.check(
            self.log, start, next_offset, end, most=_CHECKED_AT_ONCE, needed=position
        )
        # The offset of a batch is known to be true by the batch behind it.
        last, before_last = found.last, found.before_last
        if found.is_end:
            if found.reached == self.log.size and found.next_offset == self.end_offset:
                last, before_last = found.reached, found.next_offset
            elif last <= position:
                self._validate_end(found.reached, found.next_offset)
        checked.add(start, last, before_last)
        if checked.is_all(self.log.size):
            self._unchecked = None
        return last - position

    def _is_behind(self, position: int, offset: int) -> bool:
        """Whether the batch at `position` begins behind `offset`.

        What lies before it has to be checked then: a batch there may hold `offset`.
        """
        return 0 < position < self.log.size and self._offset_at(position) > offset

    def _validate_end(self, reached: int, next_offset: int) -> None:
        if reached < self.log.size:
            raise self._corrupt(reached, next_offset, "no valid batch is there")
        if next_offset != self.end_offset:
            raise self._corrupt(
                reached, next_offset, f"the records up to offset {self.end_offset - 1} are missing"
            )

    def _corrupt(self, position: int, offset: int, what: str) -> CorruptLogError:
        file = self.log.file() or repr(self)
        return CorruptLogError(Damage(file=file, position=position, offset=offset, what=what))

    def _corrupt_from(self, start: int) -> CorruptLogError:
        """What is wrong behind `start`, where a batch is."""
        reached, next_offset = start, self.base_offset
        for _, end, _, last_offset, _ in scan.extents(self.log, start, self.base_offset):
            reached, next_offset = end, last_offset + 1
        return self._corrupt(reached, next_offset, "no valid batch is there")

    # Timestamps

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> Lookup:
        """The first record with that timestamp or a later one.

        Records before `start_offset` do not count.
        """
        if self.max_timestamp < timestamp:
            return None
        earlier = self._index.times.floor(timestamp - 1)
        if earlier is not None and not self._is_time(earlier):
            self._mend_index()
            earlier = self._index.times.floor(timestamp - 1)
        known = self.base_offset if earlier is None else self.base_offset + earlier[1]
        headers = self.headers(self.position(max(known, start_offset)))
        for number, (position, header) in enumerate(headers, 1):
            if header.max_timestamp >= timestamp:
                batch = self.log.read(position, header.size)
                found = yield from lookup.first_since(batch, timestamp, start_offset)
                if found is not None:
                    return found
            if not number % lookup.HEADERS_PER_STEP:
                yield None
        return None

    def latest_record(self, start_offset: int) -> Lookup:
        """The first record with the largest timestamp.

        Records before `start_offset` do not count.
        """
        largest = self.max_timestamp
        if start_offset <= self._max_timestamp_offset:
            found = yield from self.offset_for_timestamp(largest, start_offset)
            if found is not None:
                return found
        # The record with the largest timestamp lies before `start_offset`, or a header is not true.
        first = self.position(start_offset)
        best: tuple[int, int] | None = None
        last: tuple[int, int] | None = None
        while True:
            batches = yield from lookup.best_batches(self.headers(first), last)
            for position, header in batches:
                last = lookup.rank_of_batch(header)
                if best is not None and lookup.rank(best) < last:
                    return best
                found = yield from lookup.latest(self.log.read(position, header.size), start_offset)
                best = min(filter(None, (best, found)), key=lookup.rank, default=None)
            if not batches:
                return best

    def nothing_from(self, offset: int) -> CorruptLogError:
        """The error that tells that no batch holds `offset` or follows it, though one must."""
        return self._corrupt(self.log.size, offset, "no record from there on is in the segment")

    def take_back(self, end_offset: int) -> None:
        """Remove the batches from `end_offset` on. Must be repeated if it raises OSError."""
        position = self.position(end_offset)
        self._index.cut(end_offset - self.base_offset)
        self.aborted.cut(end_offset)
        self._remembered = None
        self._since_entry = 0
        self.log.truncate(position)
        self.recover(everything=False, gaps=True)

    # Recovery

    def resume(self) -> None:
        """Load the index of a segment that was found on disk, or rebuild it if it is wrong."""
        self._resumed = True
        if self._last_entry(times_known=True) is None:
            self._mend_index()

    def _last_entry(self, *, times_known: bool) -> int | None:
        """Load the index; returns the position of its last entry, None if the index is unusable.

        `times_known`: no power loss can have taken rows of the time index.
        """
        try:
            latest, offset = self._index.resume()
        except ValueError:
            return None
        entry = self._index.offsets.last()
        if latest < 0 or (entry is not None and not self._is_batch(entry)):
            return None
        if not self._is_time((latest, offset)):
            return None
        self._max_timestamp, self._max_timestamp_offset = latest, self.base_offset + offset
        reached = 0 if entry is None else entry[1]
        return reached if times_known or self._find_lost_times(offset, reached) else None

    def _find_lost_times(self, offset: int, end: int) -> bool:
        """Look for timestamps larger than that of the last time index entry, before position `end`.

        The index has rows behind the batch with the relative `offset`, and none of them rose the
        largest timestamp, unless the rows of the time index were lost. The row of the largest one
        is stored then, and need not be looked for again. Returns False where a batch is damaged.
        """
        row = self._index.offsets.floor(offset)
        start = 0 if row is None else row[1]
        if start >= end:
            return True
        try:
            for position, header in scan.headers(self.log, start):
                if position >= end:
                    break
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp = header.max_timestamp
                    self._max_timestamp_offset = header.last_offset
        except KafkaError:
            return False
        self._index.add_time(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
        self._index.write()
        return True

    def _mend_index(self) -> None:
        """Rebuild the index that was found wrong.

        Raises WrongIndexError if that would take long, CorruptLogError, OSError.
        """
        if self.log.size > _REBUILT_AT_ONCE:
            raise WrongIndexError(self)
        self.rebuild_index()

    def forget_index(self) -> None:
        """Empty the index: it is rebuilt when the segment is opened again. Raises OSError."""
        self._index.clear()

    def rebuild_index(self, progress: Progress = unobserved) -> None:
        """Rebuild the index from the batches, checking each. Raises CorruptLogError, OSError."""
        self._resumed = True
        end_offset = self.end_offset
        reached = self._scan_all(gaps=True, progress=progress)
        if self._max_timestamp >= 0:  # else it says too little to be told from a wrong one
            logger.warning("the index of %s was missing or wrong: recreated", self.log.file())
        next_offset, self.end_offset = self.end_offset, end_offset
        self._validate_end(reached, next_offset)
        self._unchecked = None
        self.seal()

    def _scan_all(self, *, gaps: bool, progress: Progress) -> int:
        """Index every batch up to the first that is not valid; returns where that is."""
        self._index.clear()
        self._max_timestamp, self._since_entry = NO_TIMESTAMP, 0
        self.end_offset = self.base_offset
        return self._scan_from(0, gaps, progress)

    def _scan_from(self, start: int, gaps: bool, progress: Progress) -> int:
        """`note` every batch from `start` on; returns where the first is that is not valid."""
        reached = reported = start
        for at, end, base_offset, last_offset, max_timestamp in scan.extents(
            self.log, start, self.end_offset
        ):
            if base_offset != self.end_offset and not gaps:
                break
            if last_offset - self.base_offset > LARGEST:  # no index can name it
                break
            self.note(at, end - at, last_offset, max_timestamp)
            reached = end
            if reached - reported >= _REPORTED_BYTES:
                progress(reached - reported)
                reported = reached
        progress(reached - reported)
        return reached

    def recover(
        self,
        *,
        everything: bool,
        gaps: bool,
        progress: Progress = unobserved,
        times_known: bool = False,
    ) -> int:
        """Find the end of what is whole, and get ready to append there; returns its position.

        Batches are checked by their CRC from the last index entry on, or with `everything` from the
        first, when the machine went down and any page may not have reached the disk. `gaps` between
        their offsets are what compaction leaves. `times_known`: no power loss can have taken rows
        of the time index. Nothing is cut off: see `truncate`. Raises OSError.
        """
        entry = None if everything else self._last_entry(times_known=times_known)
        if entry is None and not everything and self._index.is_stored:
            logger.warning("the index of %s was wrong: recreated", self.log.file())
        self._resumed = True
        if not entry:
            reached = self._scan_all(gaps=gaps, progress=progress)
            self._unchecked = None
            return reached
        first = read_header(self.log.read(0, HEADER_SIZE))
        self.first_timestamp = first.max_timestamp
        self.end_offset = read_header(self.log.read(entry, HEADER_SIZE)).base_offset
        reached = self._scan_from(entry, gaps, progress)
        if reached == entry:
            # the batch that the index names is broken, and so is the index
            return self.recover(everything=True, gaps=gaps, progress=progress)
        if self._unchecked is not None:
            self._unchecked.add(entry, reached, self.end_offset)
        return reached

    def truncate(self, position: int) -> None:
        """Cut off what lies beyond the end that `recover` found. Raises OSError."""
        self.log.truncate(position)

    def check_end(self, progress: Progress = unobserved, *, times_known: bool = False) -> None:
        """Check that a sealed segment ends where the next one begins, which is its end offset.

        Only the batches behind the last index entry are read, unless rows of the time index may be
        missing (not `times_known`). Raises CorruptLogError, OSError.
        """
        entry = self._last_entry(times_known=times_known)
        if entry is None and self.log.size:
            self.rebuild_index(progress)
            return
        self._resumed = True
        reached = entry or 0
        next_offset = self.base_offset
        for _, end, _, last_offset, max_timestamp in scan.extents(
            self.log, reached, self.base_offset
        ):
            reached, next_offset = end, last_offset + 1
            if max_timestamp > self._max_timestamp:
                self._max_timestamp = max_timestamp
                self._max_timestamp_offset = last_offset
        self._validate_end(reached, next_offset)
        if self._unchecked is not None and reached:
            self._unchecked.add(entry or 0, reached, next_offset)

    def _is_time(self, entry: tuple[int, int]) -> bool:
        """Whether the time index entry (timestamp, relative offset) is that of a batch."""
        offset = self.base_offset + entry[1]
        at = self._index.offsets.floor(entry[1])
        if offset < self.base_offset or (at is not None and not self._is_batch(at)):
            return False
        try:
            for _, header in scan.headers(self.log, 0 if at is None else at[1]):
                if header.last_offset >= offset:
                    return header.last_offset == offset and header.max_timestamp == entry[0]
        except KafkaError:  # the end may be torn, or worse: that is for others to tell
            pass
        return False

    def _is_batch(self, entry: tuple[int, int]) -> bool:
        """Whether the index entry (relative last offset, position) is true."""
        position = entry[1]
        if not 0 <= position <= self.log.size - HEADER_SIZE:
            return False
        return self._is_header_of(entry, read_header(self.log.read(position, HEADER_SIZE)))

    def _is_header_of(self, entry: tuple[int, int], header: Header) -> bool:
        return scan.is_plausible(header) and header.last_offset == self.base_offset + entry[0]

    def close(self) -> None:
        """Close the files, after writing the index as far as possible."""
        self._index.write()
        self._index.close()
        if self._aborted is not None:
            self._aborted.close()
        self.log.close()
