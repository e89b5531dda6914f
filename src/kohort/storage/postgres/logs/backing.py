"""State of a log in PostgreSQL beside its batches: segments, checkpoint, producers."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kohort.cluster import FencedError
from kohort.errors import fresh
from kohort.log import scan
from kohort.log.backing import Checkpoint, UnsyncedBacking
from kohort.log.compaction import StoppedError
from kohort.log.index import SegmentIndex
from kohort.log.problems import Problems
from kohort.log.segment import Segment
from kohort.log.stores import MemoryStore, Store
from kohort.protocol.batches import Buffer
from kohort.storage.postgres.link import Connection
from kohort.storage.postgres.logs.lane import Lane
from kohort.storage.postgres.logs.operations import Operation, Operations, Work
from kohort.storage.postgres.logs.pages import (
    LOAD_CHUNK_BYTES,
    PAGE,
    PAGE_BYTES,
    PageCache,
    PagedStore,
    Row,
)
from kohort.storage.postgres.logs.reading import RowReader
from kohort.storage.postgres.logs.rows import PUT_SEGMENT, StoredLog, StoredSegment
from kohort.types import TopicPartition

MAX_SEGMENT_BYTES: Final = 64 << 20
"""Bytes of a segment at most: opening a log and compaction take in one of them."""
_ROW_CHUNK: Final = 64
"""Rows of a whole segment, of some 64 KiB, that one call inserts within its time limit."""
MAX_ROWS: Final = 4096
"""Rows, about, behind those of the table of segments: opening the log reads each of them."""

_CLEANED: Final = "update logs set cleaned = greatest(cleaned, $2) where id = $1"


def _nothing() -> None:
    pass


def _ignore(_: Exception) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """Services that all logs of a session use."""

    operations: Operations
    reader: RowReader
    cache: PageCache
    problems: Problems
    most_rows: int = MAX_ROWS


class PostgresBacking(UnsyncedBacking):
    """The `Backing` of one log."""

    def __init__(
        self,
        context: LogContext,
        number: int,
        topic_partition: TopicPartition,
        lane: Lane,
    ) -> None:
        self.number = number
        self._context = context
        self._name = topic_partition
        self._lane = lane
        self.appended: Callable[[], Awaitable[None]]
        """Returns when all that was appended is written."""
        self.refused: Callable[[Exception], None]
        """Called with the error if state is not stored that a later start needs."""
        self._failure: Exception | None = None
        """Why nothing more is stored."""
        self.is_over = False
        """Whether the log has ended: another one may have taken its place."""
        self._pending: list[Row] = []
        self.saving: Operation | None = None
        """Stores the last checkpoint."""
        self._producers = b""
        self._active: Segment | None = None
        self._since_stored = 0
        """Rows since the active segment was last stored, by this owner or by others."""
        self._discarded: deque[tuple[int, int]] = deque()
        """Extents of segments that are yet to be deleted."""
        self.is_swapping = False
        """Whether rows of segments are being replaced, which no other operation may delete then."""
        self._swapped: tuple[StoredSegment, Sequence[PackedRow]] | None = None
        """The compacted segment that is being put in its place."""

    # Rows

    def _added(self, row: Row) -> None:
        self._pending.append(row)
        self._lane.unwritten += len(row.data)
        self._since_stored += 1

    def take_rows(self) -> list[Row]:
        rows, self._pending = self._pending, []
        return rows

    def written(self) -> None:
        """The rows that `take_rows` returned are in the table."""
        self._context.cache.trim()
        if self._since_stored >= self._context.most_rows and self._active is not None:
            self._store_open(self._active)

    # Segments

    def _store(self, base_offset: int) -> PagedStore:
        context = self._context
        return PagedStore(
            self.number, self._name, context.cache, context.reader, self._added, base_offset
        )

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        store = self._store(base_offset)
        self._active = _segment(base_offset, store, interval)
        self._since_stored = 0
        return self._active

    def restore(self, stored: StoredLog, interval: int) -> list[Segment]:
        """The segments of a stored log. Raises CorruptLogError if its rows do not fit together."""
        self._producers = stored.producers
        segments = [self._restored(segment, interval) for segment in stored.segments]
        if segments and stored.segments[-1].is_open:
            active = self._active = segments.pop()
        else:
            if segments:
                base = segments[-1].end_offset
            else:
                base = stored.rows[0].base if stored.rows else stored.start_offset
            active = self.new_segment(base, interval)
            active.created = stored.now
        store = _paged(active)
        if stored.aborted_base == active.base_offset:
            store.aborted = stored.aborted
        for row in stored.rows:
            active.note(store.size, row.size, row.next - 1, row.max_timestamp)
            store.restore_row(row.base, row.next, row.size)
        store.complete()
        # Owners that write little before the next one takes over would never store anything.
        self._since_stored = len(stored.rows)
        active.modified = stored.now
        return [*segments, active]

    def _restored(self, stored: StoredSegment, interval: int) -> Segment:
        store = self._store(stored.base)
        segment = Segment(stored.base, store, stored.new_index(), max(interval, PAGE_BYTES))
        store.restore(stored.pages, stored.size, stored.next)
        store.aborted = stored.aborted
        segment.restore(stored.state)
        return segment

    def sealed(self, segment: Segment) -> None:
        store = _paged(segment)
        store.complete()

        async def put(connection: Connection) -> None:
            await _put(
                connection, self.number, StoredSegment.of(segment, store.table(), store.size)
            )

        self._add(f"storing a segment of {self._name}", put)

    def _store_open(self, segment: Segment) -> None:
        """Store the active segment with what was appended up to now, once that is written."""
        self._since_stored = 0
        store = _paged(segment)
        stored = StoredSegment.of(segment, store.table(), store.size)._replace(is_open=True)

        async def put(connection: Connection) -> None:
            await _put(connection, self.number, stored)

        self._add(f"storing the active segment of {self._name}", put, can_wait=True)

    def discard(self, segments: Sequence[Segment]) -> None:
        if not segments:
            return
        for segment in segments:
            segment.close()
        is_under_way = bool(self._discarded)
        self._discarded += [(segment.base_offset, segment.end_offset) for segment in segments]
        if not is_under_way:
            self._delete_one()

    def _delete_one(self) -> None:
        """Delete the first segment that was discarded, and then the next ones.

        They may be thousands: no transaction takes long, and what else is stored of the log goes in
        between. A log that has ended leaves them to the next one, whose start offset is theirs.
        """
        first, end = self._discarded[0]
        start_offset = self._discarded[-1][1]

        async def delete(connection: Connection) -> None:
            await _delete(connection, self.number, first, end)
            # With its last records a log would lose its end offset.
            await connection.execute(
                "update logs set start_offset = greatest(start_offset, $2) where id = $1",
                self.number,
                start_offset,
            )

        def go_on() -> None:
            self._discarded.popleft()
            if self._discarded and not self.is_over:
                self._delete_one()

        self._add(f"deleting segments of {self._name}", delete, committed=go_on)

    def _add(
        self,
        activity: str,
        work: Work,
        *,
        can_wait: bool = False,
        committed: Callable[[], None] = _nothing,
    ) -> Operation:
        async def unless_failed(connection: Connection) -> None:
            if self._failure is not None:
                raise fresh(self._failure)
            await work(connection)

        refused = _ignore if can_wait else self.refused
        return self._context.operations.add(
            Operation(self.number, activity, unless_failed, self.appended, refused, committed)
        )

    def fail(self, error: Exception) -> None:
        """Store nothing more beside rows.

        It may tell of rows that were refused, and segments behind one that is missing hide its
        rows.
        """
        if self._failure is None:
            self._failure = error

    # The rest of its state

    def save(self, checkpoint: Checkpoint) -> None:
        async def update(connection: Connection) -> None:
            await connection.execute(
                "update logs set start_offset = greatest(start_offset, $2), cleaned = $3 "
                "where id = $1",
                self.number,
                checkpoint.start_offset,
                checkpoint.cleaned,
            )

        self.saving = self._add(f"storing the checkpoint of {self._name}", update)

    def save_producers(self, snapshot: Buffer) -> None:
        content = bytes(snapshot)
        active = self._active
        aborted = b"" if active is None else active.aborted.store.read(0, MAX_SEGMENT_BYTES)
        base = 0 if active is None else active.base_offset

        async def update(connection: Connection) -> None:
            await connection.execute(
                "update logs set producers = $2, aborted_base = $3, aborted = $4 where id = $1",
                self.number,
                content,
                base,
                aborted,
            )

        self._add(f"storing the producers of {self._name}", update)

    def load_producers(self) -> bytes:
        return self._producers

    def forget_producers(self) -> None:
        """The log has read them; no other copy is kept in memory."""
        self._producers = b""

    # Compaction

    def compaction_target(self, base_offset: int) -> Segment:
        index = SegmentIndex(MemoryStore(), MemoryStore())
        return Segment(base_offset, MemoryStore(), index, PAGE_BYTES)

    def begin_swap(self, old: Sequence[Segment], new: Segment, cleaned: int) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        self.is_swapping = True
        for segment in old:
            _paged(segment).is_current = False

        def swap() -> None:
            self._swapped = stored, rows = packed(new)
            putting = self._put_compacted(old, stored, rows, cleaned)
            asyncio.run_coroutine_threadsafe(putting, loop).result()

        return swap

    async def _put_compacted(
        self,
        old: Sequence[Segment],
        new: StoredSegment,
        rows: Sequence["PackedRow"],
        cleaned: int,
    ) -> None:
        if self.is_over:
            raise StoppedError
        first, end = old[0].base_offset, old[-1].end_offset

        async def put(connection: Connection) -> None:
            await replace_rows(connection, self.number, (first, end), new, rows)
            # Together with the rows: who reads them on learns that they are others.
            await connection.execute(_CLEANED, self.number, cleaned)

        try:
            await self._add(f"compacting {self._name}", put).done()
        except FencedError as error:
            raise StoppedError from error

    def drop_swap(self, old: Sequence[Segment], new: Segment) -> None:
        """The log was removed or closed: no segment is deleted during a swap."""

    def finish_swap(self, old: Sequence[Segment], new: Segment) -> Segment:  # noqa: ARG002
        assert self._swapped is not None
        stored, rows = self._swapped
        self._swapped, self.is_swapping = None, False
        for segment in old:
            segment.close()
        segment = self._restored(stored, PAGE_BYTES)
        if stored.size <= LOAD_CHUNK_BYTES:
            _paged(segment).loaded(0, [row.data for row in rows])
        return segment


class PackedRow(NamedTuple):
    """Batches of a whole segment that become one row."""

    position: int
    base: int
    next: int
    epoch: int
    max_timestamp: int
    data: bytes


def _rows_of(store: Store) -> Iterator[PackedRow]:
    start, base, following, epoch, latest = 0, -1, 0, 0, -1
    for position, header in scan.headers(store, 0):
        is_led_on = base < 0 or header.partition_leader_epoch == epoch
        if position - start > PAGE_BYTES or not is_led_on:
            data = store.read(start, position - start)
            yield PackedRow(start, base, following, epoch, latest, data)
            start, base, latest = position, -1, -1
        base = header.base_offset if base < 0 else base
        following, latest = header.last_offset + 1, max(latest, header.max_timestamp)
        epoch = header.partition_leader_epoch
    if base >= 0:
        data = store.read(start, store.size - start)
        yield PackedRow(start, base, following, epoch, latest, data)


def packed(segment: Segment) -> tuple[StoredSegment, Sequence[PackedRow]]:
    """What is stored of a segment in memory to which nothing more is appended."""
    rows = tuple(_rows_of(segment.log))
    table = b"".join(PAGE.pack(row.position, row.base) for row in rows)
    return StoredSegment.of(segment, table, segment.size), rows


async def replace_rows(
    connection: Connection,
    log: int,
    between: tuple[int, int],
    segment: StoredSegment,
    rows: Sequence[PackedRow],
) -> None:
    """Put a segment in the place of all that a log has between two offsets, in a transaction."""
    await _delete(connection, log, *between)
    for start in range(0, len(rows), _ROW_CHUNK):
        await connection.executemany(
            "insert into batches (log, base, next, epoch, max_ts, data) "
            "values ($1, $2, $3, $4, $5, $6)",
            [
                (log, row.base, row.next, row.epoch, row.max_timestamp, row.data)
                for row in rows[start : start + _ROW_CHUNK]
            ],
        )
    await _put(connection, log, segment)


def _segment(base_offset: int, store: PagedStore, interval: int) -> Segment:
    index = SegmentIndex(MemoryStore(), MemoryStore())
    return Segment(base_offset, store, index, max(interval, PAGE_BYTES))


def _paged(segment: Segment) -> PagedStore:
    store = segment.log
    assert isinstance(store, PagedStore)
    return store


async def _put(connection: Connection, log: int, segment: StoredSegment) -> None:
    await connection.execute(PUT_SEGMENT, log, *segment)


async def _delete(connection: Connection, log: int, first: int, end: int) -> None:
    """Delete the batches and segments from the offset `first` up to `end`."""
    await connection.execute(
        "delete from batches where log = $1 and base >= $2 and base < $3", log, first, end
    )
    await connection.execute(
        "delete from segments where log = $1 and base >= $2 and base < $3", log, first, end
    )
