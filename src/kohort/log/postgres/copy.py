"""Tables as the source and as the target of a copy."""

from uuid import UUID

from kohort.errors import KohortError
from kohort.log.backing import Checkpoint
from kohort.log.index import SegmentIndex
from kohort.log.postgres import alone, schema
from kohort.log.postgres.backing import LARGEST_SEGMENT, packed, replace_rows
from kohort.log.postgres.control import Control
from kohort.log.postgres.directory import PostgresDirectory
from kohort.log.postgres.link import Connection
from kohort.log.postgres.pages import PAGE_BYTES
from kohort.log.postgres.stored import pack_epochs
from kohort.log.segment import Segment
from kohort.log.shared_memory import SharedMemoryStore
from kohort.log.storage import MemoryStore
from kohort.types import TopicPartition

_NAME = "kohort storage copy"
_ADD_LOG = (
    "insert into logs (id, topic, partition, topic_id) values (nextval('log_ids'), $1, $2, $3) "
    "on conflict (topic, partition) where state = 'live' do update set topic_id = $3 returning id"
)


def open_source(url: str) -> PostgresDirectory:
    """The logs of stopped servers. Raises KohortError, OSError."""
    control = Control(url, _NAME)
    try:
        version = control.query(schema.tables_version)
    finally:
        control.close()
    if version == 0:
        raise KohortError("the schema has no tables of Kohort")
    return PostgresDirectory(url, node=alone.NODE)


class PostgresTarget:
    """The `Target` in tables. Every method raises OSError."""

    largest_segment = LARGEST_SEGMENT

    def __init__(self, url: str) -> None:
        """Make the tables or empty them of what a copy has left.

        Raises KohortError if they have anything else, or another process uses them.
        """
        self._control = Control(url, _NAME)
        try:
            self._control.query(self._begin)
        except BaseException:
            self.close()
            raise

    async def _begin(self, connection: Connection) -> None:
        await alone.ensure_locked(connection, alone.NODE)
        await schema.begin_copy(connection)
        self._control.keep_locked(connection, alone.NODE)

    def add_log(self, partition: TopicPartition, topic_id: UUID) -> "PostgresLogCopy":
        async def add(connection: Connection) -> int:
            found: int = await connection.fetchval(_ADD_LOG, *partition, topic_id)
            return found

        return PostgresLogCopy(self._control, self._control.query(add))

    def complete(self, cluster_id: str) -> None:
        async def complete(connection: Connection) -> None:
            await schema.complete_copy(connection, cluster_id)

        self._control.query(complete)

    def close(self) -> None:
        self._control.close()


class PostgresLogCopy:
    """The `LogCopy` in tables."""

    def __init__(self, control: Control, number: int) -> None:
        self._control = control
        self._number = number

    def new_segment(self, base_offset: int) -> Segment:
        index = SegmentIndex(MemoryStore(), MemoryStore())
        return Segment(base_offset, SharedMemoryStore(), index, PAGE_BYTES)

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
