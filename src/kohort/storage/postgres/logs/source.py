"""Tables as the source of a copy, and as what a copy is compared with."""

from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from kohort.errors import KohortError
from kohort.log.base import LogConfig
from kohort.log.problems import Problems
from kohort.log.segment_recovery import unobserved
from kohort.storage.postgres import exclusive_lock, schema, synchronous_commit
from kohort.storage.postgres.blocking_connection import BlockingConnection
from kohort.storage.postgres.fence import Fence
from kohort.storage.postgres.link import Connection, Link
from kohort.storage.postgres.logs.log import PostgresLog
from kohort.storage.postgres.logs.open_logs import epochs_of
from kohort.storage.postgres.logs.pages import PageCache
from kohort.storage.postgres.logs.reading import RowReader
from kohort.storage.postgres.logs.rows import StoredLog, read_logs
from kohort.storage.postgres.logs.session import Session, SessionContext
from kohort.storage.postgres.pooler import ensure_own_session
from kohort.types import TopicPartition

NAME: Final = "kohort storage copy"


class StoredPlaces(NamedTuple):
    """Which logs the tables have: the `Places` of a copy."""

    cluster_id: str | None
    topic_ids: dict[TopicPartition, UUID | None]

    def marks(self) -> dict[TopicPartition, UUID | None]:
        return self.topic_ids


class PostgresSource:
    """The `Source` in tables: the logs of stopped servers. Nothing of them is written."""

    def __init__(self, url: str) -> None:
        """Lock the tables exclusively, and end the sessions of servers that hang. Blocks.

        Raises KohortError if there are no tables, or they are in use or not for this Kohort;
        OSError if the database cannot be used.
        """
        self._control = BlockingConnection(url, NAME)
        self._reader = RowReader(Link(url, f"{NAME} reading"), self._control)
        context = SessionContext(
            link=lambda part: Link(url, f"{NAME} {part}"),
            reader=self._reader,
            cache=PageCache(),
            problems=Problems(),
        )
        # Its fence has no session to write in.
        self._session = Session(context, Fence(exclusive_lock.EXCLUSIVE))
        self._logs: dict[TopicPartition, PostgresLog] = {}
        self._stored: dict[TopicPartition, StoredLog] = {}
        """Logs that are yet to be opened."""
        try:
            cluster_id, stored = self._control.query(partial(self._begin, url))
        except BaseException:
            self.close()
            raise
        self._stored = {log.topic_partition: log for log in stored.values()}
        topic_ids = {log.topic_partition: log.topic_id for log in stored.values()}
        self.directories = StoredPlaces(cluster_id, topic_ids)

    async def _begin(
        self, url: str, connection: Connection
    ) -> tuple[str | None, dict[int, StoredLog]]:
        await ensure_own_session(connection, url)
        if await version(connection) == 0:
            raise KohortError("the schema has no tables of Kohort")
        await schema.prepare(connection)
        await exclusive_lock.ensure_locked(connection, exclusive_lock.EXCLUSIVE)
        await exclusive_lock.fence_all(connection)
        self._control.keep_exclusive(connection)
        cluster_id: str | None = await connection.fetchval("select cluster_id from meta")
        return cluster_id, await read_logs(connection, None)

    def open(self, topic_partition: TopicPartition, config: LogConfig) -> PostgresLog:
        """The log, to be read. Raises KafkaError if it is damaged, OSError."""
        stored = self._stored.pop(topic_partition, None)
        if stored is not None:
            self._logs[topic_partition] = self._session.open(
                stored, config, unobserved, leader_epochs=epochs_of(stored, 0)
            )
        return self._logs[topic_partition]

    def close(self) -> None:
        """Close the connections and release the lock. Idempotent."""
        self._session.stop()
        self._reader.stop()
        self._control.close()


async def version(connection: Connection) -> int:
    """Version of the tables. Raises KohortError if nothing can be committed, or there is no schema.

    The servers of a source are fenced, which is a write.
    """
    await synchronous_commit.ensure_possible(connection)
    return await schema.tables_version(connection)
