"""Tables as the target of a copy."""

from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kohort.errors import KohortError
from kohort.log.backing import Checkpoint
from kohort.log.copying import Extent
from kohort.log.index import SegmentIndex
from kohort.log.segment import Segment
from kohort.log.stores import MemoryStore
from kohort.storage.postgres import exclusive_lock, schema
from kohort.storage.postgres.blocking_connection import BlockingConnection
from kohort.storage.postgres.link import Connection
from kohort.storage.postgres.logs.backing import MAX_SEGMENT_BYTES, packed, replace_rows
from kohort.storage.postgres.logs.delete_logs import remove_some
from kohort.storage.postgres.logs.pages import PAGE_BYTES
from kohort.storage.postgres.logs.rows import pack_epochs
from kohort.storage.postgres.logs.source import NAME, version
from kohort.storage.postgres.pooler import ensure_own_session
from kohort.types import TopicPartition

_BEGIN = (
    "update meta set cluster_id = $1 where cluster_id is null or cluster_id = $1 returning true"
)
_ADD_LOG = (
    "insert into logs (id, topic, partition, topic_id) values (nextval('log_ids'), $1, $2, $3) "
    "on conflict (topic, partition) where state = 'live' do update set topic_id = $3 returning id"
)
_FOUND = (
    "select l.id, l.topic, l.partition, l.topic_id, l.start_offset, "
    "greatest(l.start_offset, max(s.next)), coalesce(sum(s.size), 0)::bigint, l.cleaned, "
    "l.producers <> '' from logs l left join segments s on s.log = l.id group by l.id"
)


class _Found(NamedTuple):
    """A log that is there."""

    number: int
    topic_id: UUID
    extent: Extent | None
    """None: it was not copied whole."""


class PostgresTarget:
    """The `Target` in tables. Every method raises OSError."""

    largest_segment = MAX_SEGMENT_BYTES

    def __init__(self, url: str) -> None:
        """Make the tables, if there are none.

        Raises KohortError if they have anything but what a copy has left, or another process uses
        them.
        """
        self._control = BlockingConnection(url, NAME)
        self._found: dict[TopicPartition, _Found] = {}
        """Logs that a copy has left which was interrupted."""
        self._logs: set[TopicPartition] = set()
        """Those of the source."""
        try:
            self._control.query(partial(self._begin, url))
        except BaseException:
            self.close()
            raise

    async def _begin(self, url: str, connection: Connection) -> None:
        await ensure_own_session(connection, url)
        await version(connection)  # the lock is one of a schema
        await exclusive_lock.ensure_locked(connection, exclusive_lock.EXCLUSIVE)
        await schema.begin_copy(connection)
        self._control.keep_exclusive(connection)

    def begin(self, cluster_id: str) -> None:
        async def begin(connection: Connection) -> list[Any]:
            if not await connection.fetchval(_BEGIN, cluster_id):
                schema = await connection.fetchval("select current_schema()")
                raise KohortError(
                    "the tables have a part of a copy of another cluster: remove it (drop schema "
                    f"{schema} cascade), or name another schema by the search_path of the URL"
                )
            rows: list[Any] = await connection.fetch(_FOUND)
            return rows

        for number, topic, partition, topic_id, *extent, is_whole in self._control.query(begin):
            self._found[TopicPartition(topic, partition)] = _Found(
                number, topic_id, Extent(*extent) if is_whole else None
            )

    def copied(self, partition: TopicPartition, topic_id: UUID) -> Extent | None:
        self._logs.add(partition)
        log = self._found.get(partition)
        return None if log is None or log.topic_id != topic_id else log.extent

    def add_log(self, partition: TopicPartition, topic_id: UUID) -> "PostgresLogCopy":
        self._logs.add(partition)
        self._remove(partition)

        async def add(connection: Connection) -> int:
            number: int = await connection.fetchval(_ADD_LOG, *partition, topic_id)
            return number

        return PostgresLogCopy(self._control, self._control.query(add))

    def _remove(self, partition: TopicPartition) -> None:
        log = self._found.pop(partition, None)
        if log is not None:
            while self._control.query(partial(remove_some, log=log.number)):
                pass

    def complete(self, cluster_id: str) -> None:
        for partition in self._found.keys() - self._logs:
            self._remove(partition)

        async def complete(connection: Connection) -> None:
            await schema.complete_copy(connection, cluster_id)

        self._control.query(complete)

    def close(self) -> None:
        self._control.close()


class PostgresLogCopy:
    """The `LogCopy` in tables."""

    def __init__(self, control: BlockingConnection, number: int) -> None:
        self._control = control
        self._number = number

    def new_segment(self, base_offset: int) -> Segment:
        index = SegmentIndex(MemoryStore(), MemoryStore())
        return Segment(base_offset, MemoryStore(), index, PAGE_BYTES)

    def store(self, segment: Segment, *, is_active: bool) -> None:  # noqa: ARG002
        """A new segment follows the last one, as after `segment.ms`."""
        if not segment.size:
            return
        segment.seal()
        stored, rows = packed(segment)

        async def put(connection: Connection) -> None:
            async with connection.transaction():
                extent = stored.base, stored.next
                await replace_rows(connection, self._number, extent, stored, rows)

        self._control.query(put)

    def finish(self, checkpoint: Checkpoint, producers: bytes) -> None:
        start = checkpoint.start_offset

        async def update(connection: Connection) -> None:
            await connection.execute(
                "update logs set start_offset = $2, cleaned = $3, producers = $4, "
                "leader_epochs = $5 where id = $1",
                self._number,
                start,
                checkpoint.cleaned,
                producers,
                pack_epochs(checkpoint.epochs),
            )

        self._control.query(update)
