"""Logs as they are in the tables, and sealed segments on their way there and back."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from kohort.log.index import SegmentIndex
from kohort.log.leader_epochs import EpochEntry
from kohort.log.segment import Segment
from kohort.log.segment_recovery import SegmentState
from kohort.log.stores import MemoryStore
from kohort.storage.postgres.link import Connection
from kohort.types import TopicPartition


class StoredSegment(NamedTuple):
    """A row of the table of segments."""

    base: int
    next: int
    size: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    created: int
    modified: int
    pages: bytes
    offsets: bytes
    times: bytes
    aborted: bytes
    is_open: bool = False
    """Whether it is appended to: then it may be longer than its row says."""

    @classmethod
    def of(cls, segment: Segment, pages: bytes, size: int) -> "StoredSegment":
        """The row of a segment as it is now, sealed."""
        state = segment.state()
        aborted = segment.aborted.store
        return cls(
            segment.base_offset, state.end_offset, size,
            state.first_timestamp, state.max_timestamp, state.max_timestamp_offset,
            state.created, state.modified, pages, state.offsets, state.times,
            aborted.read(0, aborted.size),
        )  # fmt: skip

    @property
    def state(self) -> SegmentState:
        return SegmentState(
            self.next, self.first_timestamp, self.max_timestamp, self.max_timestamp_offset,
            self.created, self.modified, self.offsets, self.times,
        )  # fmt: skip

    def new_index(self) -> SegmentIndex:
        return SegmentIndex(
            MemoryStore(bytearray(self.offsets)), MemoryStore(bytearray(self.times))
        )


class StoredRow(NamedTuple):
    """A row of batches behind those of the table of segments, without its data."""

    base: int
    next: int
    size: int
    max_timestamp: int


class StoredLog(NamedTuple):
    """A log."""

    id: int
    topic_partition: TopicPartition
    topic_id: UUID | None
    start_offset: int = 0
    cleaned: int = 0
    producers: bytes = b""
    aborted_base: int = 0
    aborted: bytes = b""
    epochs: bytes = b""
    """Its leader epochs, as `pack_epochs` has them; without any, all is of epoch 0."""
    segments: Sequence[StoredSegment] = ()
    """Of which the last one may be open."""
    rows: Sequence[StoredRow] = ()
    now: int = 0
    """Time at which it was read, in ms."""

    @property
    def end_offset(self) -> int:
        ends = (stored[-1].next for stored in (self.segments, self.rows) if stored)
        return max(self.start_offset, *ends, 0)


_EPOCH: Final = Struct(">iq")


def pack_epochs(epochs: Iterable[EpochEntry]) -> bytes:
    """Leader epochs with their start offsets, as they are stored."""
    return b"".join(_EPOCH.pack(*entry) for entry in epochs)


def unpack_epochs(stored: bytes) -> list[EpochEntry]:
    return [EpochEntry(*fields) for fields in _EPOCH.iter_unpack(stored)]


PUT_SEGMENT: Final = (
    "insert into segments values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
    "$14) "
    "on conflict (log, base) do update set next = excluded.next, size = excluded.size, "
    "first_timestamp = excluded.first_timestamp, max_timestamp = excluded.max_timestamp, "
    "max_timestamp_offset = excluded.max_timestamp_offset, created = excluded.created, "
    "modified = excluded.modified, pages = excluded.pages, offsets = excluded.offsets, "
    "times = excluded.times, aborted = excluded.aborted, is_open = excluded.is_open"
)

_LOGS: Final = (
    "select id, topic, partition, topic_id, start_offset, cleaned, producers, aborted_base, "
    "aborted, leader_epochs, (extract(epoch from now()) * 1000)::bigint as now "
    "from logs where state = 'live' and ($1::text[] is null or id = any($1::text[]::int[])) "
    "order by id"
)
_SEGMENTS: Final = (
    "select log, base, next, size, first_timestamp, max_timestamp, max_timestamp_offset, "
    "created, modified, pages, offsets, times, aborted, is_open "
    "from segments where log = any($1::text[]::int[]) order by log, base"
)
_ROWS: Final = (
    "select b.log, b.base, b.next, octet_length(b.data), b.max_ts "
    "from unnest($1::text[]::int[]) as l (id) cross join lateral ("
    "  select * from batches where log = l.id and base >= "
    "  (select coalesce(max(s.next), 0) from segments s where s.log = l.id)"
    "  order by base"
    ") b"
)


async def read_logs(connection: Connection, ids: Sequence[int] | None) -> dict[int, StoredLog]:
    """The logs with these ids, or all, by id. Raises what asyncpg raises."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        # As text[]: see `open_logs`.
        log_rows = await connection.fetch(_LOGS, None if ids is None else [*map(str, ids)])
        segments: dict[int, list[StoredSegment]] = {log_row["id"]: [] for log_row in log_rows}
        log_ids = [*map(str, segments)]
        for log, *fields in await connection.fetch(_SEGMENTS, log_ids):
            segments[log].append(StoredSegment(*fields))
        rows: dict[int, list[StoredRow]] = {log: [] for log in segments}
        for log, *fields in await connection.fetch(_ROWS, log_ids):
            rows[log].append(StoredRow(*fields))
    return {
        log_row["id"]: _log(log_row, segments[log_row["id"]], rows[log_row["id"]])
        for log_row in log_rows
    }


def _log(row: Any, segments: Sequence[StoredSegment], rows: Sequence[StoredRow]) -> StoredLog:
    return StoredLog(
        row["id"],
        TopicPartition(row["topic"], row["partition"]),
        row["topic_id"],
        row["start_offset"],
        row["cleaned"],
        row["producers"],
        row["aborted_base"],
        row["aborted"],
        row["leader_epochs"],
        segments,
        rows,
        row["now"],
    )
