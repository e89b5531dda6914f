"""Compaction (`cleanup.policy=compact`): keeps the last record of every key, as Kafka's Cleaner.

Only closed segments are compacted. Data appended to them since the last run is the dirty part. Its
keys are read into a map from key to the offset of the key's last record. All segments up to there
are then copied without the records that have a later one.

Readers can rely on these rules:

- Offsets never change. A batch keeps its base offset and last offset when records in it are
  removed, so offsets have gaps.
- A tombstone (null value) is kept until `delete.retention.ms` after compaction first saw it, so
  that slow readers see the deletion. That time is in the batch itself, as its delete horizon
  (KIP-534).
- A batch without records stays as a bare header in two cases, otherwise it is removed. One is that
  it holds the last sequence of a known producer, whose retry must be recognised after a restart.
  The other is that it is the last of a segment, so that a segment always shows where it ends.
- A batch that cannot be read stays as it is.

A run is planned and installed on the loop thread and executed in another one, on files that never
change. Readers see the old segments until the new ones are complete. An interruption loses no data.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from kohort.errors import ErrorCode, KafkaError
from kohort.log import scan
from kohort.log.base import FOREVER, LogConfig
from kohort.log.durability import sync_all
from kohort.log.segment import LARGEST, Segment
from kohort.protocol import batches, records
from kohort.protocol.batches import HEADER_SIZE, Buffer, Header

MAX_KEYS = 2_000_000
"""Keys that one run takes into its map (some 200 MB); further dirty segments wait for the next run.
"""

# A computing thread lets the event loop run every 5 ms; a short sleep yields at once.
_WORK_S, _REST_S = 0.001, 0.0001


class StoppedError(Exception):
    """The run was stopped: its log was closed, or the server ends."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Segments, and the one that takes their place."""

    sources: tuple[Segment, ...]
    result: Segment


@dataclass(slots=True)
class Compaction:
    """One run over the first segments of a log."""

    segments: tuple[Segment, ...]
    """All that are old enough, clean ones first."""
    first_dirty: int
    """Index of the first one that is not clean."""
    config: LogConfig
    now: int
    keep: frozenset[int] = frozenset()
    """Last offsets of batches whose header must stay."""
    latest: dict[bytes, int] = field(default_factory=dict)
    stopped: bool = False
    """Set from the loop thread to have `run` end soon, with StoppedError."""

    @classmethod
    def plan(
        cls, segments: Sequence[Segment], config: LogConfig, cleaned: int, now: int
    ) -> "Compaction | None":
        """Plan a run, None if too little is dirty.

        `cleaned` is the offset where the last run ended.
        """
        old = list(_old_enough(segments[:-1], config, now))
        first_dirty = sum(segment.end_offset <= cleaned for segment in old)
        dirty = sum(segment.size for segment in old[first_dirty:])
        total = sum(segment.size for segment in old)
        if not dirty or not (
            dirty > config.min_cleanable_dirty_ratio * total
            or _overdue(old[first_dirty], config, now)
        ):
            return None
        return cls(tuple(old), first_dirty, config, now)

    def run(self, target: Callable[[int], Segment]) -> list[Cleaned]:
        """Write the new segments, each created by `target` from its base offset; blocks until done.

        Raises OSError, StoppedError, and KafkaError CORRUPT_MESSAGE if a segment is damaged.
        """
        pieces: list[_Piece] = []
        for source in self.segments[: self._read_keys()]:
            if not pieces or not pieces[-1].has_room_for(source, self.config.segment_bytes):
                pieces.append(_Piece(target(source.base_offset)))
            pieces[-1].copy(source, self._batches(source), self._filter)
        return [piece.finish() for piece in pieces]

    def _read_keys(self) -> int:
        """Fill the map from the dirty segments.

        Returns how many segments can be cleaned with it.
        """
        for number in range(self.first_dirty, len(self.segments)):
            if len(self.latest) >= MAX_KEYS:
                return number
            for header, batch in self._batches(self.segments[number]):
                # A batch that cannot be read supersedes no record.
                with contextlib.suppress(KafkaError):
                    self.latest.update(_keys(header, batch))
        return len(self.segments)

    def _batches(self, segment: Segment) -> Iterator[tuple[Header, memoryview]]:
        reader = segment.log.reader()
        read = 0
        rested = time.perf_counter()
        try:
            for position, header, batch in scan.intact(reader, 0, segment.base_offset):
                read = position + header.size
                yield header, batch
                if self.stopped:
                    raise StoppedError
                if time.perf_counter() - rested > _WORK_S:
                    time.sleep(_REST_S)
                    rested = time.perf_counter()
        finally:
            reader.close()
        if read != reader.size:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{segment!r} is broken at position {read}: not compacted",
            )

    def _filter(self, header: Header, batch: memoryview) -> Buffer | None:
        """The batch without superseded records, None if no byte of it is kept."""
        if header.is_control:
            return batch
        try:
            content = bytes(batches.inflate(batch, header))
            found = list(records.walk(content, 0, header.record_count))
        except KafkaError:
            return batch
        drop_tombstones = header.delete_horizon is not None and self.now >= header.delete_horizon
        kept = [
            record for record in found if self._is_kept(record, header.base_offset, drop_tombstones)
        ]
        if not kept:
            return _bare(header) if header.last_offset in self.keep else None
        has_tombstone = any(value_start < 0 for *_, value_start, _ in kept)
        if has_tombstone and header.delete_horizon is None:
            horizon = self.now + self.config.delete_retention_ms
            return batches.set_delete_horizon(header, _decoded(header, content, kept), horizon)
        if len(kept) == len(found):
            return batch
        timestamp = header.max_timestamp
        if not header.is_log_append_time:
            timestamp = max(header.base_timestamp + delta for _, _, delta, *_ in kept)
        return batches.replace_records(
            header, [content[start:end] for start, end, *_ in kept], timestamp
        )

    def _is_kept(self, record: records.RawRecord, base_offset: int, drop_tombstones: bool) -> bool:
        _, _, _, delta, key, value_start, _ = record
        if key is None or (value_start < 0 and drop_tombstones):
            return False
        return base_offset + delta >= self.latest.get(key, -1)


class _Piece:
    """A segment that is being written, and those that it is to replace: as many as fit into one.

    Without that compaction would leave ever more, ever smaller segments.
    """

    def __init__(self, result: Segment) -> None:
        self._result = result
        self._sources: list[Segment] = []
        self._dropped: Header | None = None
        """The last batch so far, if it was removed."""

    def has_room_for(self, source: Segment, segment_bytes: int) -> bool:
        span = source.end_offset - self._result.base_offset
        return self._result.size + HEADER_SIZE + source.size <= segment_bytes and span <= LARGEST

    def copy(
        self,
        source: Segment,
        found: Iterable[tuple[Header, memoryview]],
        left_of: Callable[[Header, memoryview], Buffer | None],
    ) -> None:
        self._sources.append(source)
        for header, batch in found:
            left = left_of(header, batch)
            self._dropped = header if left is None else None
            if left is not None:
                self._append(left, source.modified)

    def _append(self, batch: Buffer, modified: int) -> None:
        header = batches.read_header(batch)
        self._result.append(
            (batch,), header.size, header.last_offset, header.max_timestamp, modified
        )

    def finish(self) -> Cleaned:
        last = self._sources[-1]
        if self._dropped is not None:
            self._append(_bare(self._dropped), last.modified)
        self._result.seal()
        self._result.end_offset = last.end_offset
        if (path := self._result.log.file()) is not None:
            # whatever the durability: it takes the place of what may long be on the disk
            sync_all((path,))
        return Cleaned(tuple(self._sources), self._result)


def _old_enough(segments: Sequence[Segment], config: LogConfig, now: int) -> Iterator[Segment]:
    """The segments before the first that holds a record younger than `min.compaction.lag.ms`."""
    if not config.min_compaction_lag_ms:
        return iter(segments)
    newest = now - config.min_compaction_lag_ms
    return takewhile(lambda segment: segment.max_timestamp <= newest, segments)


def _overdue(segment: Segment, config: LogConfig, now: int) -> bool:
    """Whether the first record of `segment` is older than `max.compaction.lag.ms`."""
    if config.max_compaction_lag_ms == FOREVER:
        return False
    first = next(segment.headers(), None)
    return first is not None and now - first[1].max_timestamp > config.max_compaction_lag_ms


def _keys(header: Header, batch: memoryview) -> dict[bytes, int]:
    """The last offset of each key of a batch."""
    if header.is_control:
        return {}
    content = batches.inflate(batch, header)
    found = records.walk(content, 0, header.record_count)
    return {
        key: header.base_offset + delta for _, _, _, delta, key, _, _ in found if key is not None
    }


def _decoded(
    header: Header, content: bytes, kept: Sequence[records.RawRecord]
) -> list[tuple[int, batches.Record]]:
    """(offset delta, record) of the `kept` ones."""
    every = records.decode(content, 0, header.record_count, 0, header.base_timestamp)
    wanted = {delta for _, _, _, delta, *_ in kept}
    return [(record.offset, record) for record in every if record.offset in wanted]


def _bare(header: Header) -> bytes:
    """The batch without records."""
    return batches.replace_records(header, (), header.max_timestamp)
