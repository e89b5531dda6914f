"""The state of a segment that was found on disk: its end, its index, its timestamps.

The index is not synced, and a power loss may take rows of it. So each entry is compared with the
batch that it names, when the segment is resumed and when it is read. A wrong index is rebuilt from
the batches.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.log import scan
from kohort.log.segment_storage import MAX_SEGMENT_SIZE, SegmentStorage
from kohort.protocol.batches import HEADER_SIZE, NO_TIMESTAMP, Header, read_header

logger = logging.getLogger("kohort.log")

_MAX_REBUILT_BY_READ: Final = 2 << 20
"""Bytes of a segment whose index a read rebuilds itself (some 16 ms)."""
_PROGRESS_BYTES: Final = 1 << 20

Progress = Callable[[int], None]
"""Called with the bytes that were checked since its last call; it may raise to end the check."""


def unobserved(checked: int) -> None:
    """The `Progress` of a check that nobody observes."""


class WrongIndexError(KafkaError):
    """The index of a segment is wrong, and clients get KAFKA_STORAGE_ERROR until it is rebuilt."""

    def __init__(self, segment: "RecoverableSegment") -> None:
        file = segment.log.file() or repr(segment)
        super().__init__(
            ErrorCode.kafka_storage_error,
            f"the index of {file} is wrong; it is rebuilt, and the log is opened again",
        )
        self.segment = segment


class SegmentState(NamedTuple):
    """State of a segment at one moment, without its batches."""

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


class RecoverableSegment(SegmentStorage):
    """A segment whose end and index are found again."""

    __slots__ = ()

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of its batches (ms), -1 if there is none."""
        if not self._resumed:
            self.resume()
        return self._max_timestamp

    def state(self) -> SegmentState:
        """The current state, for `restore`. Raises OSError."""
        self._index.write()
        offsets, times = self._index.offsets.store, self._index.times.store
        return SegmentState(
            self.end_offset,
            self.first_timestamp,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.created,
            self.modified,
            offsets.read(0, offsets.size),
            times.read(0, times.size),
        )

    def restore(self, state: SegmentState) -> None:
        """Take over a `state`; the index has its rows already."""
        self.end_offset = state.end_offset
        self.first_timestamp = state.first_timestamp
        self.created, self.modified = state.created, state.modified
        self._max_timestamp = state.max_timestamp
        self.max_timestamp_offset = state.max_timestamp_offset

    # Recovery

    def resume(self) -> None:
        """Load the index of a segment that was found on disk, or rebuild it if it is wrong."""
        self._resumed = True
        if self._last_entry(times_known=True) is None:
            self._mend_index()

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
            logger.warning("rebuilt the invalid index of %s", self.log.file())
        self._resumed = True
        if not entry:
            valid_end = self._scan_all(gaps=gaps, progress=progress)
            self._verified = None
            return valid_end
        first = read_header(self.log.read(0, HEADER_SIZE))
        self.first_timestamp = first.max_timestamp
        self.end_offset = read_header(self.log.read(entry, HEADER_SIZE)).base_offset
        valid_end = self._scan_from(entry, gaps, progress)
        if valid_end == entry:
            # the batch that the index names is broken, and so is the index
            return self.recover(everything=True, gaps=gaps, progress=progress)
        if self._verified is not None:
            self._verified.add(entry, valid_end, self.end_offset)
        return valid_end

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
        valid_end = entry or 0
        next_offset = self.base_offset
        for _, end, _, last_offset, max_timestamp in scan.extents(
            self.log, valid_end, self.base_offset
        ):
            valid_end, next_offset = end, last_offset + 1
            if max_timestamp > self._max_timestamp:
                self._max_timestamp = max_timestamp
                self.max_timestamp_offset = last_offset
        self._validate_end(valid_end, next_offset)
        if self._verified is not None and valid_end:
            self._verified.add(entry or 0, valid_end, next_offset)

    def _scan_all(self, *, gaps: bool, progress: Progress) -> int:
        """Index every batch up to the first that is not valid; returns where that is."""
        self._index.clear()
        self._max_timestamp, self._since_entry = NO_TIMESTAMP, 0
        self.end_offset = self.base_offset
        return self._scan_from(0, gaps, progress)

    def _scan_from(self, start: int, gaps: bool, progress: Progress) -> int:
        """`note` every batch from `start` on; returns where the first is that is not valid."""
        valid_end = reported = start
        for batch_start, end, base_offset, last_offset, max_timestamp in scan.extents(
            self.log, start, self.end_offset
        ):
            if base_offset != self.end_offset and not gaps:
                break
            if last_offset - self.base_offset > MAX_SEGMENT_SIZE:  # no index can name it
                break
            self.note(batch_start, end - batch_start, last_offset, max_timestamp)
            valid_end = end
            if valid_end - reported >= _PROGRESS_BYTES:
                progress(valid_end - reported)
                reported = valid_end
        progress(valid_end - reported)
        return valid_end

    # The index

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
        self._max_timestamp, self.max_timestamp_offset = latest, self.base_offset + offset
        position = 0 if entry is None else entry[1]
        return position if times_known or self._find_lost_times(offset, position) else None

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
                    self.max_timestamp_offset = header.last_offset
        except KafkaError:
            return False
        self._index.add_time(self._max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._index.write()
        return True

    def _mend_index(self) -> None:
        """Rebuild the index that was found wrong.

        Raises WrongIndexError if that would take long, CorruptLogError, OSError.
        """
        if self.log.size > _MAX_REBUILT_BY_READ:
            raise WrongIndexError(self)
        self.rebuild_index()

    def forget_index(self) -> None:
        """Empty the index: it is rebuilt when the segment is opened again. Raises OSError."""
        self._index.clear()

    def rebuild_index(self, progress: Progress = unobserved) -> None:
        """Rebuild the index from the batches, checking each. Raises CorruptLogError, OSError."""
        self._resumed = True
        end_offset = self.end_offset
        valid_end = self._scan_all(gaps=True, progress=progress)
        if self._max_timestamp >= 0:  # else it says too little to be told from a wrong one
            logger.warning("rebuilt the missing or invalid index of %s", self.log.file())
        next_offset, self.end_offset = self.end_offset, end_offset
        self._validate_end(valid_end, next_offset)
        self._verified = None
        self.seal()

    def _is_time(self, entry: tuple[int, int]) -> bool:
        """Whether the time index entry (timestamp, relative offset) is that of a batch."""
        offset = self.base_offset + entry[1]
        row = self._index.offsets.floor(entry[1])
        if offset < self.base_offset or (row is not None and not self._is_batch(row)):
            return False
        try:
            for _, header in scan.headers(self.log, 0 if row is None else row[1]):
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
