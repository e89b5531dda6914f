"""Checks of `kohort storage check` on logs in PostgreSQL; nothing is changed."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from kohort.log import scan
from kohort.log.directory_format import METADATA_NAME
from kohort.log.findings import Finding, Fold, Level, LoggedPartition
from kohort.log.stores import MemoryStore
from kohort.storage.postgres.link import Connection
from kohort.types import TopicPartition

_ROW_CHUNK: Final = 64
"""Rows, of some 64 KiB, that are in memory."""
_LOGS: Final = (
    "select id, topic, partition, topic_id, start_offset, cleaned from logs where state = 'live' "
    "order by topic, partition"
)
_SEGMENTS: Final = "select base, next, size from segments where log = $1 order by base"
_ROWS: Final = (
    "select base, next, epoch, data from batches where log = $1 and base >= $2 order by base "
    "limit $3"
)
_ORPHANS: Final = (
    "with recursive r as ((select log from batches order by log limit 1) union all "
    "select (select b.log from batches b where b.log > r.log order by b.log limit 1) "
    "from r where r.log is not null) "
    "select log from r where log is not null and not exists (select from logs where id = r.log)"
)
"""Each log is looked up in the key of the table, because a scan of all rows may take minutes."""
_BACKUP: Final = "restore the schema from a backup"


async def check_logs(connection: Connection, fold: Fold) -> AsyncIterator[Finding]:
    """What there is to say of the logs; every byte is read. Raises what asyncpg raises."""
    logs = await connection.fetch(_LOGS)
    topic_ids = {TopicPartition(log["topic"], log["partition"]): log["topic_id"] for log in logs}
    metadata: list[bytes] = []
    damaged = False
    for log in logs:
        name = f"{log['topic']}-{log['partition']}"
        checked = _CheckedLog(log, await connection.fetch(_SEGMENTS, log["id"]))
        async for row in _rows(connection, log["id"]):
            if checked.damage is None:
                checked.add(row)
            if name == METADATA_NAME:
                metadata.append(row["data"])
        if (damage := checked.damage or checked.damage_at_the_end()) is not None:
            damaged = True
            yield Finding(Level.PROBLEM, "log", f"{name}: {damage}; {_BACKUP}")
    if not damaged:
        yield Finding(Level.OK, "logs", f"none of {len(logs)} is damaged")
    for finding in _topics(topic_ids, metadata, fold):
        yield finding
    for (number,) in await connection.fetch(_ORPHANS):
        remedy = f"delete from batches where log = {number}"  # for people  # nosec B608
        text = f"batches has rows of log {number}, which is none: {remedy}"
        yield Finding(Level.WARNING, "rows", text)


async def _rows(connection: Connection, log: int) -> AsyncIterator[Any]:
    """The rows of a log, in order."""
    following = 0
    while rows := await connection.fetch(_ROWS, log, following, _ROW_CHUNK):
        for row in rows:
            yield row
        following = rows[-1]["base"] + 1


class _CheckedLog:
    """A log, as far as its rows were read."""

    def __init__(self, log: Any, segments: Sequence[Any]) -> None:
        self._log = log["id"]
        self._start_offset = log["start_offset"]
        self._cleaned = log["cleaned"]
        self._segments = segments
        self._sizes = dict.fromkeys((segment["base"] for segment in segments), 0)
        self._segment = 0
        self._next: int | None = None
        self._epoch = 0
        self.damage: str | None = None
        """The first damage, with its row."""
        for segment, following in pairwise(segments):
            if self.damage is None and segment["next"] != following["base"]:
                self.damage = (
                    f"segments has no row for the offsets {segment['next']} to "
                    f"{following['base'] - 1}, behind (log, base) = "
                    f"({self._log}, {segment['base']})"
                )

    def add(self, row: Any) -> None:
        """Check the next row."""
        damage = self._gap(row["base"]) or self._wrong(row)
        if damage is not None:
            self.damage = f"batches, (log, base) = ({self._log}, {row['base']}): {damage}"
        self._next = row["next"]
        while self._segment < len(self._segments):
            segment = self._segments[self._segment]
            if row["base"] < segment["next"]:
                self._sizes[segment["base"]] += len(row["data"])
                break
            self._segment += 1

    def _gap(self, base: int) -> str | None:
        """Compaction leaves gaps; else there are none from the start of the log on."""
        expected = self._start_offset if self._next is None else self._next
        if base > expected and base >= self._cleaned:
            return f"the records from offset {expected} to {base - 1}, before it, are missing"
        if self._next is not None and base < expected:
            return f"the row before it ends at offset {expected - 1}"
        return None

    def _wrong(self, row: Any) -> str | None:
        """What is wrong inside a row."""
        data, end, following = row["data"], 0, row["base"]
        first: int | None = None
        for position, header, _ in scan.intact(MemoryStore(bytearray(data)), 0, row["base"]):
            if header.partition_leader_epoch < self._epoch:
                return (
                    f"the leader epoch {header.partition_leader_epoch} at offset "
                    f"{header.base_offset} follows {self._epoch}"
                )
            self._epoch = header.partition_leader_epoch
            first = header.base_offset if first is None else first
            end, following = position + header.size, header.last_offset + 1
        if end < len(data):
            return f"no valid batch is at byte {end} of its data, offset {following}"
        if (first, following, self._epoch) != (row["base"], row["next"], row["epoch"]):
            return "offsets or leader epoch are not those of its data"
        return None

    def damage_at_the_end(self) -> str | None:
        """What is missing, once all rows were read."""
        for segment in self._segments:
            if self._sizes[segment["base"]] != segment["size"]:
                return (
                    f"segments, (log, base) = ({self._log}, {segment['base']}): its batches have "
                    f"{self._sizes[segment['base']]} bytes instead of {segment['size']}"
                )
        return None


def _topics(
    topic_ids: Mapping[TopicPartition, UUID | None], metadata: Sequence[bytes], fold: Fold
) -> Iterator[Finding]:
    try:
        partitions = fold(metadata)
    except ValueError as error:
        yield Finding(Level.PROBLEM, "metadata", f"{METADATA_NAME}: {error}")
        return
    yield from _compared(topic_ids, partitions)


def _compared(
    topic_ids: Mapping[TopicPartition, UUID | None],
    partitions: Mapping[TopicPartition, LoggedPartition],
) -> Iterator[Finding]:
    """Compare the logs with the topics."""
    for partition, topic_id in topic_ids.items():
        if str(partition) == METADATA_NAME:
            continue
        if partition not in partitions:
            text = (
                f"the log {partition} belongs to no topic: the next start sets it aside, and it is "
                "removed after stray.retention.ms"
            )
            yield Finding(Level.WARNING, "topics", text)
        elif partitions[partition].topic_id != topic_id:
            text = (
                f"the log {partition} is of the topic {topic_id}, and its topic is "
                f"{partitions[partition].topic_id}: the partition is not served; {_BACKUP}"
            )
            yield Finding(Level.PROBLEM, "topics", text)
    missing = sorted(partitions.keys() - topic_ids.keys())
    for partition in missing:
        text = f"the log {partition} is missing: {_BACKUP}, or the next start makes it, empty"
        yield Finding(Level.WARNING, "topics", text)
    if not missing:
        yield Finding(Level.OK, "topics", f"each of {len(partitions)} partitions has its log")
