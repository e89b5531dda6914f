"""The logs of a cluster in PostgreSQL, as one of its nodes has them.

The node writes only in its session, and with a session everything ends that writes in it: what was
not written then never is. A log that is taken is read after the record by which this node leads it
was appended. By then no other node writes to it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from kohort import __version__
from kohort.cluster import FencedError
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import Log, LogConfig
from kohort.log.cleaner import clean_all
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.postgres import schema
from kohort.log.postgres.control import Control
from kohort.log.postgres.fence import OPERATIONS, Fence
from kohort.log.postgres.link import Connection, Link
from kohort.log.postgres.log import PostgresLog
from kohort.log.postgres.operations import Operation
from kohort.log.postgres.outcomes import DatabaseError
from kohort.log.postgres.pages import PageCache
from kohort.log.postgres.places import SET_ASIDE, PostgresPlaces
from kohort.log.postgres.reading import RowReader
from kohort.log.postgres.removing import nothing_is_appended, remove_rows, remove_strays
from kohort.log.postgres.session import Session
from kohort.log.postgres.stored import StoredLog, read_logs
from kohort.log.problems import Problems
from kohort.log.refused import RefusedLog
from kohort.types import Timestamp, TopicPartition

logger = logging.getLogger("kohort.log")

DATABASE: Final = TopicPartition("postgresql", 0)
"""The name under which the problems of the database itself are."""
RELEASED_WITHIN_S: Final = 2.0
"""Time that the last appends of a log have; then the session ends, and nothing more is written."""

_FIND: Final = (
    "select id, topic_id from logs where topic = $1 and partition = $2 and state = 'live'"
)
_MAKE: Final = (
    "insert into logs (id, topic, partition, topic_id) values (nextval('log_ids'), $1, $2, $3) "
    "returning id"
)
_EPOCHS: Final = (
    "select epoch, min(base) from batches where log = $1 group by epoch order by min(base)"
)
_REMOVE: Final = (
    "update logs set state = 'removed', state_since = now() where topic = $1 and partition = $2 "
    "and topic_id = $3 and state = 'live' returning id"
)


class SharedPostgresDirectory:
    """The `SharedLogDirectory` of PostgreSQL. For one event loop."""

    def __init__(self, url: str, node: int, *, stray_retention_ms: int) -> None:
        """Nothing is opened yet: `open_tables` does."""
        self._name = f"kohort node {node}"
        self._url = url
        self._stray_retention_ms = stray_retention_ms
        self.problems = Problems()
        self.on_reopened: list[Callable[[Log], None]] = []
        self.on_lost: list[Callable[[], None]] = []
        """Never called: a node whose session is over begins another one."""
        self._control = Control(url, f"{self._name} control")
        self._reader = RowReader(self._link("reading"), self._control)
        self._cache = PageCache()
        self._logs: dict[TopicPartition, PostgresLog | RefusedLog] = {}
        self._session: Session | None = None
        self._trouble: str | None = None
        self.directories: PostgresPlaces
        self._closed = False

    def __repr__(self) -> str:
        return f"<SharedPostgresDirectory {self._name} {len(self._logs)} logs>"

    def _link(self, part: str) -> Link:
        return Link(self._url, f"{self._name} {part}")

    async def open_tables(self) -> None:
        """Make the tables if there are none, and know their cluster. Raises OSError, KohortError.

        It may be called again after a failure.
        """

        async def read(connection: Connection) -> tuple[str | None, str | None]:
            await schema.prepare(connection)
            return tuple(await connection.fetchrow("select cluster_id, written_by from meta"))

        found_id, written_by = await asyncio.to_thread(self._control.query, read)
        self.directories = PostgresPlaces(
            self._control, None, found_id, written_by or __version__, __version__
        )

    # Sessions

    def session_begun(self, fence: Fence) -> None:
        """Write by this session from now on, until it is lost."""
        self._session = Session(
            self._link,
            fence,
            self._control,
            self._reader,
            self._cache,
            self.problems,
            troubled=self._troubled,
        )
        fence.on_lost.append(self._session_over)

    def _session_over(self) -> None:
        logs = tuple(self._logs.values())
        self._logs.clear()
        if self._session is not None:
            session, self._session = self._session, None
            session.abandon(FencedError())
        for log in logs:
            log.end(ErrorCode.not_leader_or_follower)
        self._troubled(None)

    def _current(self) -> Session:
        """Raises DatabaseError."""
        if self._session is None:
            raise DatabaseError(None, "this node has no session")
        return self._session

    def _troubled(self, error: Exception | None) -> None:
        if error is None and self._trouble is not None:
            self.problems.end(DATABASE, self._trouble)
            self._trouble = None
        elif error is not None and self._trouble is None:
            self._trouble = f"PostgreSQL cannot be written, which is tried again: {error}"
            self.problems.begin(DATABASE, self._trouble)

    # Leading

    async def take(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
    ) -> PostgresLog | RefusedLog:
        session = self._current()
        log = await asyncio.to_thread(
            self._taken, session, topic_partition, topic_id, config, leader_epoch
        )
        if session is not self._session:
            raise DatabaseError(None, "the session of this node has ended meanwhile")
        self._logs[topic_partition] = log
        return log

    def _taken(
        self,
        session: Session,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
    ) -> PostgresLog | RefusedLog:
        """Raises OSError."""

        async def read(connection: Connection) -> tuple[StoredLog, list[tuple[int, int]]]:
            number = await _number(connection, session.fence, topic_partition, topic_id)
            stored = (await read_logs(connection, [number]))[number]
            return stored, [tuple(row) for row in await connection.fetch(_EPOCHS, number)]

        try:
            stored, batches = self._control.query(read)
        except FencedError as error:
            raise DatabaseError(None, str(error)) from error
        self.problems.end_all(topic_partition)
        end_offset = max(
            stored.start_offset,
            *(each.next for each in stored.segments),
            *(each.next for each in stored.rows),
            0,
        )
        epochs = LeaderEpochs(leader_epoch, end_offset, batches)
        try:
            return session.open(stored, config, self._go_on, leader_epochs=epochs)
        except KafkaError as error:
            self.problems.begin(topic_partition, str(error))
            return RefusedLog(topic_partition, config, error)

    async def release(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        self.problems.forget(topic_partition)
        session = self._session
        try:
            log.close()
            if isinstance(log, PostgresLog):
                async with asyncio.timeout(RELEASED_WITHIN_S):
                    await log.written()
        except (OSError, KohortError, TimeoutError) as error:
            # Another session excludes what may still be under way.
            if session is not None and session is self._session:
                session.fence.lose()
            raise DatabaseError(
                None, f"what was appended to {topic_partition} last may not be written: {error}"
            ) from error

    # Removing

    def retire(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)
            self.problems.forget(topic_partition)

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.retire(topic_partition)
        session = self._session
        if session is None:
            return

        async def mark(connection: Connection) -> None:
            number = await connection.fetchval(_REMOVE, *topic_partition, topic_id)
            if number is not None:
                remove_rows(session.operations, number)

        what = f"removing {topic_partition}"
        session.operations.add(Operation(0, what, mark, nothing_is_appended))

    async def clean(self, now: Timestamp) -> None:
        await clean_all(self._logs.values(), now)
        if self._session is not None:
            remove_strays(self._session.operations, self._stray_retention_ms)

    # What one node does that leads all partitions

    def stop_opening(self) -> None:
        """Opening the tables is all that there is."""

    def _go_on(self, checked: int = 0) -> None:
        """Logs are read to their end."""

    def confirm_start(self) -> None:
        """The lease is renewed by whoever has the session."""

    def recover(self, logs: Iterable[tuple[TopicPartition, LogConfig]]) -> None:
        """PostgreSQL has done so."""

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,  # noqa: ARG002
        *,
        synced_by_owner: bool = False,  # noqa: ARG002
    ) -> PostgresLog | RefusedLog:
        """A log that was taken."""
        return self._logs[topic_partition]

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        failure = KafkaError(ErrorCode.kafka_storage_error, why)
        self.problems.begin(topic_partition, failure.message)
        self._logs[topic_partition] = RefusedLog(topic_partition, LogConfig(), failure)

    async def reopen(self) -> None:
        """Begin another session if a log has ended, which takes all logs again."""
        if self._session is not None and any(log.can_reopen for log in self._logs.values()):
            self._session.fence.lose()

    def names(self) -> Iterable[TopicPartition]:
        return tuple(self._logs)

    def close(self) -> None:
        """Close the connections; what was not released is not written. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._session_over()
        self._reader.stop()
        self._control.close()


async def _number(
    connection: Connection, fence: Fence, partition: TopicPartition, topic_id: UUID
) -> int:
    """The number of a partition's log, which is made if there is none.

    One of another topic of that name is set aside. Raises FencedError, and what asyncpg raises.
    """
    async with connection.transaction():
        if not await fence.holds(connection, OPERATIONS):
            raise FencedError
        found = await connection.fetchrow(_FIND, *partition)
        if found is not None and found["topic_id"] == topic_id:
            return int(found["id"])
        await connection.execute(SET_ASIDE, [partition.topic], [partition.partition])
        return int(await connection.fetchval(_MAKE, *partition, topic_id))
