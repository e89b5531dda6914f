"""Compaction (`cleanup.policy=compact`): keeps the last record of every key, as Kafka's Cleaner.

Only closed segments are compacted. Data appended to them since the last run is the dirty part. Its
keys are read into a map from key to the offset of the key's last record. All segments up to there
are then copied without the records that have a later one. The map has a fixed size: where it is
full, be it in the middle of a segment, the dirty part of the run ends. The batches behind are
copied as they are, and the next run begins with them.

Readers can rely on these rules:

- Offsets never change. A batch keeps its base offset and last offset when records in it are
  removed, so offsets have gaps.
- A tombstone (null value) is kept until `delete.retention.ms` after compaction first saw it, so
  that slow readers see the deletion. That time is in the batch itself, as its delete horizon
  (KIP-534).
- Nothing beyond the last stable offset is compacted. The records of aborted transactions are
  removed, and supersede no others. A marker stays as long as records of its transaction do, and
  then until `delete.retention.ms` after compaction first saw it alone, as a tombstone.
- A batch without records stays as a bare header in two cases, otherwise it is removed. One is that
  it holds the last sequence of a known producer, whose retry must be recognised after a restart.
  The other is that it is the last of a segment, so that a segment always shows where it ends.
- A batch that cannot be read stays as it is.

A run is planned and installed on the loop thread and executed in another one, on files that never
change. Readers see the old segments until the new ones are complete. An interruption loses no data.

The other thread shares the interpreter with the event loop. It rests every millisecond, also inside
a batch, longer while the loop is busy (`util.pacing`), and frees nothing large at once.
"""

import contextlib
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from kohort.errors import ErrorCode, KafkaError
from kohort.log import scan
from kohort.log.aborted_index import AbortedIndex, AbortedTransaction
from kohort.log.base import FOREVER, LogConfig
from kohort.log.cleaned_transactions import CleanedTransactions
from kohort.log.durability import sync_all
from kohort.log.latest_offsets import LatestOffsets
from kohort.log.segment import Segment
from kohort.log.segment_storage import MAX_SEGMENT_SIZE
from kohort.protocol import batches, records
from kohort.protocol.batches import HEADER_SIZE, Buffer, EndTransactionMarker, Header
from kohort.util.pacing import Pacing

MAX_KEYS = 3_000_000
"""Keys that one run takes into its map (100 MB), unless its first batch alone has more."""

_RECORDS_PER_CHECK = 512
"""Records between two looks at the clock."""


_MAX_SOURCES = 100
"""Segments that one new segment replaces: each is renamed on the loop thread (some 50 µs)."""


class StoppedError(Exception):
    """The run was stopped: its log was closed, or the server ends."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Segments, and the one that takes their place."""

    sources: tuple[Segment, ...]
    result: Segment
    end: int
    """Offset up to which the result is clean."""


@dataclass(slots=True)
class Compaction:
    """One run over the first segments of a log."""

    segments: tuple[Segment, ...]
    """All that are old enough, clean ones first."""
    first_dirty: int
    """Index of the first one that is not clean."""
    cleaned: int
    """Offset where the last run ended, maybe in the middle of that one."""
    config: LogConfig
    now: int
    aborted: Sequence[tuple[int, AbortedIndex]] = ()
    """Copies of the indexes of all segments, with the base offsets of these.

    Markers of aborted transactions may lie behind the segments that are compacted.
    """
    keep: frozenset[int] = frozenset()
    """Last offsets of batches whose header must stay."""
    latest: LatestOffsets = field(init=False)
    end: int = field(init=False)
    """Offset up to which the run cleans: the map has the keys of all batches before."""
    stopped: bool = False
    """Set from the loop thread to have `run` end soon, with StoppedError."""
    _pacing: Pacing = field(default_factory=Pacing)

    @classmethod
    def plan(
        cls, segments: Sequence[Segment], config: LogConfig, cleaned: int, now: int, stable: int
    ) -> "Generator[None, None, Compaction | None]":
        """Plan a run, None if too little is dirty; a step for each segment, which is opened.

        `cleaned` is the offset where the last run ended, `stable` the last stable offset. Raises
        KafkaError, OSError.
        """
        old: list[Segment] = []
        first_dirty = dirty = total = 0
        for segment in segments[:-1]:
            if segment.end_offset > stable or not _is_old_enough(segment, config, now):
                break
            old.append(segment)
            total += segment.size
            if segment.end_offset <= cleaned:
                first_dirty += 1
            else:
                dirty += segment.size
            yield
        if not dirty or not (
            dirty > config.min_cleanable_dirty_ratio * total
            or _overdue(old[first_dirty], config, now)
        ):
            return None
        return cls(tuple(old), first_dirty, cleaned, config, now)

    def run(self, target: Callable[[int], Segment]) -> list[Cleaned]:
        """Write the new segments, each created by `target` from its base offset; blocks until done.

        Raises OSError, StoppedError, and KafkaError CORRUPT_MESSAGE if a segment is damaged.
        """
        pieces: list[_Piece] = []
        dirty_offsets = self.segments[-1].end_offset - self.segments[self.first_dirty].base_offset
        self.latest = LatestOffsets(min(MAX_KEYS, dirty_offsets))
        try:
            self._read_keys()
            sources = [segment for segment in self.segments if segment.base_offset < self.end]
            transactions = self._transactions(sources)
            for source in sources:
                if not pieces or not pieces[-1].has_room_for(source, self.config.segment_bytes):
                    pieces.append(_Piece(target(source.base_offset)))
                left_of = partial(self._filter, transactions, pieces[-1])
                pieces[-1].copy(source, self._batches(source), left_of)
        finally:
            self.latest.close()
        return [piece.finish(self.end) for piece in pieces]

    def _read_keys(self) -> None:
        """Fill the map from the dirty part, up to the `end` of the run."""
        dirty = self.segments[self.first_dirty :]
        transactions = self._transactions(dirty)
        for segment in dirty:
            for header, batch in self._batches(segment):
                if header.is_control:
                    transactions.end(header, _marker(batch))
                    continue
                if transactions.is_aborted(header) or header.base_offset < self.cleaned:
                    continue
                # A batch that cannot be read supersedes no record.
                with contextlib.suppress(KafkaError):
                    if not self._take_keys(header, batch):
                        self.end = header.base_offset
                        return
        self.end = self.segments[-1].end_offset

    def _take_keys(self, header: Header, batch: memoryview) -> bool:
        """Whether the keys of the batch are in the map now; there may be no room for them."""
        stretches = self._read_offsets(header, batch)
        count = sum(map(len, stretches))
        if count > self.latest.room:
            if self.latest:
                return False
            self.latest.close()
            self.latest = LatestOffsets(count)
        while stretches:
            self.latest.update(stretches.popleft().items())
            self._rest()
        return True

    def _transactions(self, segments: Sequence[Segment]) -> CleanedTransactions:
        """The aborted transactions with records or markers in consecutive segments."""
        if not segments:
            return CleanedTransactions(())
        start, end = segments[0].base_offset, segments[-1].end_offset
        aborted: list[AbortedTransaction] = []
        for base_offset, index in self.aborted:
            if base_offset < start:
                continue
            for transaction in index.entries():
                if transaction.first_offset < end:
                    aborted.append(transaction)
                self._rest()
        return CleanedTransactions(aborted)

    def _read_offsets(self, header: Header, batch: memoryview) -> deque[dict[bytes, int]]:
        """The last offset of each key, of one stretch of records after the other."""
        stretches: deque[dict[bytes, int]] = deque()
        records = self._walk(batches.inflate(batch, header), header)
        for _ in range(
            0, header.record_count + 1, _RECORDS_PER_CHECK
        ):  # one more: the walk checks the end
            stretches.append(
                {
                    key: header.base_offset + delta
                    for _, _, _, delta, key, _, _ in islice(records, _RECORDS_PER_CHECK)
                    if key is not None
                }
            )
        return stretches

    def _walk(self, content: bytes, header: Header) -> Iterator[records.RawRecord]:
        """The records of a batch, with rests."""
        for number, record in enumerate(records.walk(content, 0, header.record_count)):
            if not number % _RECORDS_PER_CHECK:
                self._rest()
            yield record

    def _rest(self) -> None:
        """Let the event loop run, if that is due. Raises StoppedError."""
        if self.stopped:
            raise StoppedError
        self._pacing.rest()

    def _batches(self, segment: Segment) -> Iterator[tuple[Header, memoryview]]:
        reader = segment.log.reader()
        read = 0
        try:
            for position, header, batch in scan.intact(reader, 0, segment.base_offset):
                read = position + header.size
                yield header, batch
                self._rest()
        finally:
            reader.close()
        if read != reader.size:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{segment!r} is broken at position {read}: not compacted",
            )

    def _filter(
        self, transactions: CleanedTransactions, piece: "_Piece", header: Header, batch: memoryview
    ) -> Buffer | None:
        """The batch without superseded records, None if no byte of it is kept."""
        if header.is_control:
            return self._filter_marker(transactions, piece, header, batch)
        is_aborted = transactions.is_aborted(header)
        if header.base_offset >= self.end:
            return batch
        if is_aborted:
            return _bare(header) if header.last_offset in self.keep else None
        try:
            content = batches.inflate(batch, header)
            kept = self._select(content, header)
        except KafkaError:
            return batch
        if not kept.count:
            return _bare(header) if header.last_offset in self.keep else None
        if kept.has_tombstone and header.delete_horizon is None:
            horizon = self.now + self.config.delete_retention_ms
            return batches.set_delete_horizon(header, self._decoded(content, header), horizon)
        if kept.count == header.record_count:
            return batch
        timestamp = header.max_timestamp
        if not header.is_log_append_time:
            timestamp = header.base_timestamp + kept.largest_delta
        return batches.replace_records(header, kept.content(self._rest), kept.count, timestamp)

    def _filter_marker(
        self, transactions: CleanedTransactions, piece: "_Piece", header: Header, batch: memoryview
    ) -> Buffer | None:
        if not header.record_count:
            return None
        is_needed, aborted = transactions.end(header, _marker(batch))
        if aborted is not None:
            piece.add_aborted(aborted)
        if is_needed or header.base_offset >= self.end:
            return batch
        if header.delete_horizon is None:
            horizon = self.now + self.config.delete_retention_ms
            record = next(batches.decode_records(batch))
            return batches.set_delete_horizon(header, [(0, record)], horizon)
        return None if self.now >= header.delete_horizon else batch

    def _select(self, content: bytes, header: Header) -> "_Kept":
        kept = _Kept(content)
        for start, end, timestamp_delta, delta, key, value_start, _ in self._walk(content, header):
            if self._is_kept(header, delta, key, value_start < 0):
                kept.add(start, end, timestamp_delta, value_start < 0)
        return kept

    def _decoded(self, content: bytes, header: Header) -> Iterator[tuple[int, batches.Record]]:
        """(offset delta, record) of the records that are kept."""
        every = records.decode(content, 0, header.record_count, 0, header.base_timestamp)
        for number, record in enumerate(every):
            if not number % _RECORDS_PER_CHECK:
                self._rest()
            if self._is_kept(header, record.offset, record.key, record.value is None):
                yield record.offset, record

    def _is_kept(self, header: Header, delta: int, key: bytes | None, is_tombstone: bool) -> bool:
        if key is None:
            return False
        if is_tombstone and header.delete_horizon is not None and self.now >= header.delete_horizon:
            return False
        return header.base_offset + delta >= self.latest.get(key)


class _Kept:
    """The records of a batch that stay."""

    def __init__(self, content: bytes) -> None:
        self.count = 0
        self.largest_delta = -(2**63)
        """Of their timestamps."""
        self.has_tombstone = False
        self._content = content
        # Numbers in an array: a list of a million tuples takes 50 ms to free.
        self._runs = array("q")
        """Start and end of each run of them."""

    def add(self, start: int, end: int, timestamp_delta: int, is_tombstone: bool) -> None:
        self.count += 1
        self.largest_delta = max(self.largest_delta, timestamp_delta)
        self.has_tombstone = self.has_tombstone or is_tombstone
        runs = self._runs
        if runs and runs[-1] == start:
            runs[-1] = end
        else:
            runs.append(start)
            runs.append(end)

    def content(self, rest: Callable[[], None]) -> bytearray:
        """Their bytes; `rest` is called again and again."""
        joined = bytearray()
        runs, content = self._runs, self._content
        for run in range(0, len(runs), 2):
            joined += content[runs[run] : runs[run + 1]]
            if not run % _RECORDS_PER_CHECK:
                rest()
        return joined


class _Piece:
    """A segment that is being written, and those that it is to replace: as many as fit into one, up
    to `_MAX_SOURCES`.

    Without that compaction would leave ever more, ever smaller segments.
    """

    def __init__(self, result: Segment) -> None:
        self._result = result
        self._sources: list[Segment] = []
        self._dropped: Header | None = None
        """The last batch so far, if it was removed."""

    def has_room_for(self, source: Segment, segment_bytes: int) -> bool:
        span = source.end_offset - self._result.base_offset
        return (
            self._result.size + HEADER_SIZE + source.size <= segment_bytes
            and span <= MAX_SEGMENT_SIZE
            and len(self._sources) < _MAX_SOURCES
        )

    def copy(
        self,
        source: Segment,
        source_batches: Iterable[tuple[Header, memoryview]],
        left_of: Callable[[Header, memoryview], Buffer | None],
    ) -> None:
        self._sources.append(source)
        for header, batch in source_batches:
            left = left_of(header, batch)
            self._dropped = header if left is None else None
            if left is not None:
                self._append(left, source.modified)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """A transaction whose marker goes into this segment, and whose records were there."""
        self._result.aborted.add(transaction)

    def _append(self, batch: Buffer, modified: int) -> None:
        header = batches.read_header(batch)
        self._result.append(
            (batch,), header.size, header.last_offset, header.max_timestamp, modified
        )

    def finish(self, end: int) -> Cleaned:
        """Complete and sync the segment; `end` is that of the run. Raises OSError."""
        last = self._sources[-1]
        if self._dropped is not None:
            self._append(_bare(self._dropped), last.modified)
        self._result.seal()
        self._result.end_offset = last.end_offset
        if (path := self._result.log.file()) is not None:
            # whatever the durability: it takes the place of what may long be on the disk
            sync_all((path,))
        return Cleaned(tuple(self._sources), self._result, min(last.end_offset, end))


def _is_old_enough(segment: Segment, config: LogConfig, now: int) -> bool:
    """Whether no record of the segment is younger than `min.compaction.lag.ms`."""
    lag_ms = config.min_compaction_lag_ms
    return not lag_ms or segment.max_timestamp <= now - lag_ms


def _overdue(segment: Segment, config: LogConfig, now: int) -> bool:
    """Whether the first record of `segment` is older than `max.compaction.lag.ms`."""
    if config.max_compaction_lag_ms == FOREVER:
        return False
    first = next(segment.headers(), None)
    return first is not None and now - first[1].max_timestamp > config.max_compaction_lag_ms


def _marker(batch: memoryview) -> EndTransactionMarker | None:
    """The marker of a control batch; None if it is another one, or cannot be read."""
    with contextlib.suppress(KafkaError):
        return batches.read_marker(batch)
    return None


def _bare(header: Header) -> bytes:
    """The batch without records."""
    return batches.replace_records(header, b"", 0, header.max_timestamp)
