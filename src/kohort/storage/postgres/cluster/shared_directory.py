"""The logs that one node of a cluster leads in PostgreSQL.

The node writes only in its session. The end of a session ends all its writers, and unwritten rows
are dropped. A log is opened after the record that makes this node its leader was appended, when no
other node writes to it. Logs that are requested at a time are opened together.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from kohort import __version__
from kohort.cluster import FencedError
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import Log, LogConfig
from kohort.log.cleaner import compact_all, retain_all
from kohort.log.offline_log import OfflineLog
from kohort.log.problems import Problems
from kohort.log.segment_recovery import unobserved
from kohort.log.standby import StandbyLog
from kohort.storage.postgres import schema
from kohort.storage.postgres.blocking_connection import BlockingConnection
from kohort.storage.postgres.blocking_process import blocker
from kohort.storage.postgres.cluster.log_registry import LogRegistry
from kohort.storage.postgres.cluster.strays import CurrentTopics, find_strays
from kohort.storage.postgres.cluster.timeline import find_lost_logs, log_loss
from kohort.storage.postgres.cluster.write_health import WriteHealth
from kohort.storage.postgres.errors import DatabaseError, StatementRefusedError
from kohort.storage.postgres.fence import Fence
from kohort.storage.postgres.link import Connection, Link, Opened
from kohort.storage.postgres.logs.log import PostgresLog
from kohort.storage.postgres.logs.open_logs import LogRequest, TakenLog, take_logs
from kohort.storage.postgres.logs.pages import PageCache
from kohort.storage.postgres.logs.reading import RowReader, RowsOfOthers
from kohort.storage.postgres.logs.session import Session, SessionContext
from kohort.storage.postgres.loop_task import LoopTask
from kohort.storage.postgres.pooler import ensure_own_session
from kohort.types import Timestamp, TopicPartition

logger = logging.getLogger("kohort.log")

OPEN_CHUNK: Final = 250
"""Logs that are opened together: their rows are in memory at a time."""
RELEASE_TIMEOUT_S: Final = 2.0
"""Time that the last appends of a log have; then the session ends, and nothing more is written."""

_Log: TypeAlias = PostgresLog | OfflineLog
_Future: TypeAlias = "asyncio.Future[_Log]"
_Requested: TypeAlias = tuple[LogRequest, _Future]


class SharedPostgresDirectory:
    """The `SharedLogDirectory` of PostgreSQL. For one event loop."""

    owned = None

    def __init__(
        self, url: str, node: int, metadata: TopicPartition, *, stray_retention_ms: int
    ) -> None:
        """`metadata` is the log of the cluster. Nothing is opened yet: `open_tables` does."""
        self._metadata = metadata
        self._name = f"kohort node {node}"
        self._url = url
        self._stray_retention_ms = stray_retention_ms
        self.problems = Problems()
        self._write_health = WriteHealth(self.problems)
        self.on_reopened: list[Callable[[Log], None]] = []
        self.on_written: list[Callable[[float], None]] = []
        self._control = BlockingConnection(url, f"{self._name} control")
        self._reader = RowReader(self._link("reading"), self._control)
        self._cache = PageCache()
        self._logs: dict[TopicPartition, _Log] = {}
        self._taken: dict[TopicPartition, LogRequest] = {}
        """The request of each open log, to reopen it."""
        self._requested: deque[_Requested] = deque()
        self._opening = LoopTask(self._open_requested)
        self._session: Session | None = None
        self._ends: dict[tuple[TopicPartition, UUID], tuple[int, int]] = {}
        """High watermark and leader epoch of logs that this node led before."""
        self._current_topics: CurrentTopics = _unread_log
        self.directories: LogRegistry
        self._closed = False

    def __repr__(self) -> str:
        return f"<SharedPostgresDirectory {self._name} {len(self._logs)} logs>"

    def _link(self, part: str, opened: Opened | None = None) -> Link:
        return Link(self._url, f"{self._name} {part}", opened)

    async def open_tables(self) -> None:
        """Make the tables if there are none, and know their cluster. Raises OSError, KohortError.

        It may be called again after a failure.
        """

        async def read(connection: Connection) -> tuple[str | None, str | None]:
            await ensure_own_session(connection, self._url)
            await schema.prepare(connection)
            return tuple(await connection.fetchrow("select cluster_id, written_by from meta"))

        found_id, written_by = await asyncio.to_thread(self._control.query, read)
        self.directories = LogRegistry(
            self._control, found_id, written_by or __version__, __version__
        )

    # Sessions

    def session_begun(self, fence: Fence) -> None:
        """Write in this session from now on, until it is lost."""
        context = SessionContext(
            link=partial(self._link, opened=partial(self._ensure_history, fence)),
            reader=self._reader,
            cache=self._cache,
            problems=self.problems,
            report_health=self._write_health.report,
            written=self._written,
            find_strays=self._find_strays,
        )
        self._session = Session(context, fence)
        fence.on_lost.append(self._session_over)

    async def _find_strays(self, connection: Connection) -> list[int] | None:
        return await find_strays(connection, self._metadata, self._current_topics)

    async def _ensure_history(self, fence: Fence, connection: Connection) -> None:
        """Raise FencedError if the database has another history than that of the session."""
        await fence.ensure_timeline(connection)
        logs = [log for log in self._logs.values() if isinstance(log, PostgresLog)]
        if await find_lost_logs(connection, logs):
            raise fence.lose(FencedError("the database has lost what was acknowledged"))

    def _session_over(self) -> None:
        logs = tuple(self._logs.values())
        for partition in self._logs:
            self._remember_end(partition)
        self._logs.clear()
        self._taken.clear()
        if self._session is not None:
            session, self._session = self._session, None
            session.abandon(session.fence.lost or FencedError())
        for log in logs:
            log.end(ErrorCode.not_leader_or_follower)
        self._write_health.report(None)

    def _remember_end(self, partition: TopicPartition) -> None:
        log = self._logs.get(partition)
        if isinstance(log, PostgresLog):
            key = partition, self._taken[partition].topic_id
            self._ends[key] = log.high_watermark, log.leader_epoch

    def _report_loss(self, session: Session, request: LogRequest, log: _Log) -> None:
        """Log what the database has lost of a log that was led here before.

        Raises DatabaseError if the log would go on in the same epoch: another session begins one.
        """
        before, epoch = self._ends.pop((request.topic_partition, request.topic_id), (0, 0))
        if isinstance(log, PostgresLog) and log.end_offset < before:
            log_loss(request.topic_partition, log.end_offset, before)
            if log.leader_epoch <= epoch:
                why = f"the database has lost the end of {log.topic_partition}"
                session.fence.lose(FencedError(why))
                raise DatabaseError(None, why)

    def _current(self) -> Session:
        """Raises DatabaseError."""
        if self._session is None:
            raise DatabaseError(None, "this node has no session")
        return self._session

    def _written(self, seconds: float) -> None:
        for tell in self.on_written:
            tell(seconds)

    # Leading

    async def take(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
        position: int,
    ) -> _Log:
        session = self._current()
        request = LogRequest(topic_partition, topic_id, config, leader_epoch, position)
        log = await self._take(request)
        if session is not self._session:
            raise DatabaseError(None, "the session of this node has ended meanwhile")
        self._report_loss(session, request, log)
        self._logs[topic_partition], self._taken[topic_partition] = log, request
        return log

    async def _take(self, request: LogRequest) -> _Log:
        future: _Future = asyncio.get_running_loop().create_future()
        self._requested.append((request, future))
        self._opening.wake()
        return await future

    async def _open_requested(self) -> None:
        while True:
            await self._opening.until(lambda: self._requested)
            count = min(len(self._requested), OPEN_CHUNK)
            await self._open_some([self._requested.popleft() for _ in range(count)])

    async def _open_some(self, some: Sequence[_Requested]) -> None:
        """Open logs together. A row that PostgreSQL refuses to change holds up its log alone."""
        loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(self._open_all, self._current(), some, loop)
        except OSError as error:
            if isinstance(error, StatementRefusedError) and len(some) > 1:
                half = len(some) // 2
                await self._open_some(some[:half])
                await self._open_some(some[half:])
                return
            for _, future in some:
                _end(future, error)

    def _open_all(
        self, session: Session, some: Sequence[_Requested], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Open logs, and complete each future when its log is open.

        Raises OSError.
        """
        requests = [request for request, _ in some]

        async def read(connection: Connection) -> list[TakenLog | DatabaseError]:
            return await take_logs(connection, session.fence, self._metadata, requests)

        taken_logs = self._control.query(read)
        for (request, future), taken in zip(some, taken_logs, strict=True):
            log = (
                self._open(session, request.config, taken) if isinstance(taken, TakenLog) else taken
            )
            loop.call_soon_threadsafe(_end, future, log)

    def _open(self, session: Session, config: LogConfig, taken: TakenLog) -> _Log | OSError:
        stored, epochs = taken
        topic_partition = stored.topic_partition
        self.problems.end_all(topic_partition)
        try:
            return session.open(stored, config, unobserved, leader_epochs=epochs)
        except KafkaError as error:
            self.problems.begin(topic_partition, str(error))
            return OfflineLog(topic_partition, config, error)
        except OSError as error:
            return error.with_traceback(None)

    def stand_by(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> StandbyLog:
        source = RowsOfOthers(self._reader, topic_partition, topic_id)
        return StandbyLog(topic_partition, config, source)

    async def release(self, topic_partition: TopicPartition) -> None:
        self._remember_end(topic_partition)
        log = self._forgotten(topic_partition)
        if log is None:
            return
        self.problems.forget(topic_partition)
        session = self._session
        try:
            log.close()
            if isinstance(log, PostgresLog):
                async with asyncio.timeout(RELEASE_TIMEOUT_S):
                    await log.written()
        except (OSError, KohortError, TimeoutError) as error:
            reason = str(error) or await self._blocker() or "the database does not respond"
            why = f"what was appended to {topic_partition} last may not be written: {reason}"
            # Another session excludes what may still be under way.
            if session is not None and session is self._session:
                session.fence.lose(FencedError(why))
            raise DatabaseError(None, why) from error

    async def _blocker(self) -> str | None:
        """Text on the lock that a write of this node waits for, if there is one."""
        with contextlib.suppress(OSError, KohortError):
            return await asyncio.to_thread(self._control.query, blocker)
        return None

    def _forgotten(self, topic_partition: TopicPartition) -> _Log | None:
        """A log that is not served from now on."""
        self._taken.pop(topic_partition, None)
        return self._logs.pop(topic_partition, None)

    # Deleted topics

    def bind_topics(self, current_topics: CurrentTopics) -> None:
        self._current_topics = current_topics

    def retire(self, topic_partition: TopicPartition) -> None:
        log = self._forgotten(topic_partition)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)
            self.problems.forget(topic_partition)

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.retire(topic_partition)
        if self._session is not None:
            self._session.deletions.remove(topic_partition, topic_id)

    async def retain(self, now: Timestamp) -> None:
        await retain_all(self._logs.values(), now)
        if self._session is not None:
            self._session.deletions.sweep(self._stray_retention_ms)

    async def compact(self, now: Timestamp) -> None:
        await compact_all(self._logs.values(), now)

    # Opened logs

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,  # noqa: ARG002
        *,
        leader_epoch: int = 0,  # noqa: ARG002
    ) -> _Log:
        """The log, which was taken with its config and epoch."""
        return self._logs[topic_partition]

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        failure = KafkaError(ErrorCode.kafka_storage_error, why)
        self.problems.begin(topic_partition, failure.message)
        self._logs[topic_partition] = OfflineLog(topic_partition, LogConfig(), failure)

    async def reopen(self) -> None:
        for topic_partition, log in tuple(self._logs.items()):
            request = self._taken.get(topic_partition)
            if not log.can_reopen or request is None:
                continue
            self._remember_end(topic_partition)
            try:
                session = self._current()
                opened = await self._take(request)
                self._report_loss(session, request, opened)
            except OSError as error:
                logger.error("cannot reopen %s: %s", topic_partition, error)
                continue
            if self._logs.get(topic_partition) is log:
                self._logs[topic_partition] = opened
                for tell in tuple(self.on_reopened):
                    tell(opened)

    def names(self) -> Iterable[TopicPartition]:
        return tuple(self._logs)

    def close(self) -> None:
        """Close the connections; what was not released is not written. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._opening.stop()
        while self._requested:
            _end(self._requested.popleft()[1], DatabaseError(None, "the node ends"))
        self._session_over()
        self._reader.stop()
        self._control.close()


def _unread_log() -> tuple[int, Container[UUID]]:
    """The `CurrentTopics` of a node that has read nothing of the metadata log."""
    return -1, ()


def _end(future: _Future, result: _Log | OSError) -> None:
    if future.done():
        return  # who waits was cancelled
    if isinstance(result, OSError):
        future.set_exception(result)
    else:
        future.set_result(result)
