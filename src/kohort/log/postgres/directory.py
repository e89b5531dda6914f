"""All logs of a node in PostgreSQL."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import urlsplit
from uuid import UUID

from kohort import __version__
from kohort.cluster import UnknownOutcomeError
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import Log, LogConfig
from kohort.log.cleaner import compact_all, retain_all
from kohort.log.damage import OpeningStoppedError
from kohort.log.offline_log import OfflineLog
from kohort.log.partition_mark import new_cluster_id
from kohort.log.postgres import alone, schema
from kohort.log.postgres.backing import MOST_ROWS
from kohort.log.postgres.control import PATIENCE_S, Control
from kohort.log.postgres.fence import (
    RENEWED_EVERY_S,
    Fence,
    ensure_free,
    ensure_only,
)
from kohort.log.postgres.history import History
from kohort.log.postgres.link import Connection, Link, Opened
from kohort.log.postgres.log import PostgresLog
from kohort.log.postgres.outcomes import DatabaseError, outcome
from kohort.log.postgres.pages import PageCache
from kohort.log.postgres.places import PostgresPlaces
from kohort.log.postgres.pooler import ensure_own_session
from kohort.log.postgres.reading import RowReader
from kohort.log.postgres.session import Session
from kohort.log.postgres.stored import StoredLog, read_logs
from kohort.log.postgres.taking import epochs_of
from kohort.log.postgres.trouble import Trouble
from kohort.log.postgres.writer import INSERT
from kohort.log.problems import Problems
from kohort.types import Timestamp, TopicPartition

logger = logging.getLogger("kohort.log")

_WEEK_MS = 7 * 86_400_000


def shown(url: str) -> str:
    """The URL without what is secret."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{address}{parts.path}"


class PostgresDirectory:
    """A `LogDirectory` in PostgreSQL. For one process, and in it for one event loop."""

    def __init__(
        self,
        url: str,
        *,
        node: int = 1,
        cluster_id: str | None = None,
        exclusive: bool = False,
        stray_retention_ms: int = _WEEK_MS,
        cached_bytes: int | None = None,
        statement: str = INSERT,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """Take the place of the node in the database, and read which logs there are; blocks.

        A new database is of that cluster, or a new one. `exclusive`: no other node serves.
        `statement` is what lanes append with; a log has up to about `most_rows` behind those that
        the table of segments tells of. Raises KohortError if another process has the node,
        or the tables are not for this Kohort; OSError if the database cannot be used.
        """
        self._url = url
        self._node = node
        self._stray_retention_ms = stray_retention_ms
        self.fence = Fence(node)
        self.fence.on_lost.append(self._lost)
        self.on_lost: list[Callable[[], None]] = []
        self.on_written: list[Callable[[float], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_reopened: list[Callable[[Log], None]] = []
        self.problems = Problems()
        self._trouble = Trouble(self.problems)
        self._logs: dict[TopicPartition, PostgresLog | OfflineLog] = {}
        self._stored: dict[int, StoredLog] = {}
        """Logs as they were found at the start, until they are opened."""
        self._owned: set[TopicPartition] = set()
        """Logs that their owners sync."""
        self._leader_epochs: dict[TopicPartition, int] = {}
        """In which logs are led, if that is not 0."""
        self._stopped = self._closed = False
        self._renewing: asyncio.Task[None] | None = None
        self._history = History(self.fence, self._open_logs)
        self._control = Control(url, self._name("control"), self._history.ensure)
        self._reader = RowReader(self._link("reading"), self._control)
        self._session = Session(
            self._checked_link,
            self.fence,
            self._control,
            self._reader,
            PageCache() if cached_bytes is None else PageCache(cached_bytes),
            self.problems,
            statement=statement,
            troubled=self._trouble.tell,
            written=self._written,
            committed=self._history.committed,
            most_rows=most_rows,
        )
        self._lease = self._checked_link("lease")
        try:
            found_id, written_by = self._control.query(partial(self._begin, cluster_id, exclusive))
        except BaseException:
            self._control.close()
            raise
        self.directories = PostgresPlaces(
            self._control,
            self._session,
            found_id,
            written_by or __version__,
            __version__,
            self.fence,
        )
        for log in self._stored.values():
            self.directories.add(log.topic_partition, log.id, log.topic_id)
        if found_id is None and not self._stored:
            self.directories.settle(cluster_id or new_cluster_id())

    def _name(self, part: str) -> str:
        return f"kohort node {self._node} {part}"

    def _link(self, part: str, opened: Opened | None = None) -> Link:
        return Link(self._url, self._name(part), opened)

    def _checked_link(self, part: str) -> Link:
        return self._link(part, self._history.ensure)

    def _open_logs(self) -> Iterable[PostgresLog]:
        return [each for each in tuple(self._logs.values()) if isinstance(each, PostgresLog)]

    async def _begin(
        self, cluster_id: str | None, exclusive: bool, connection: Connection
    ) -> tuple[str | None, str | None]:
        """Take the node's place in that cluster, or any; returns cluster id and version."""
        await ensure_own_session(connection, self._url)
        await schema.prepare(connection)
        await alone.ensure_locked(connection, self._node)
        if self._node == alone.NODE:
            await alone.fence_all(connection)
        found = await connection.fetchrow("select cluster_id, written_by from meta")
        found_id, written_by = found["cluster_id"], found["written_by"]
        if cluster_id is not None and found_id not in (None, cluster_id):
            raise KohortError(
                f"the database has the logs of the cluster {found_id}, and this server is of "
                f"{cluster_id}: choose another database, or another schema by search_path"
            )
        await ensure_free(connection, self._node)
        # What others have committed is read once none of them begins a session.
        async with connection.transaction(isolation="read_committed"):
            if exclusive:
                await ensure_only(connection, self._node)
            await self.fence.take(connection)
        self._control.keep_locked(connection, self._node)
        self._stored = await read_logs(connection, None)
        return found_id, written_by

    def __repr__(self) -> str:
        return f"<PostgresDirectory {shown(self._url)} {len(self._logs)} logs>"

    # Being this node

    def _lost(self) -> None:
        # The metadata log is written in another thread.
        if self._loop is None or self._loop.is_closed():
            self._end()
        else:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        logger.error("%s", self.fence.lost)
        for log in self._logs.values():
            log.end(ErrorCode.not_leader_or_follower)
        for tell in tuple(self.on_lost):
            tell()

    def _written(self, seconds: float) -> None:
        for tell in self.on_written:
            tell(seconds)

    async def _renew(self) -> None:
        try:
            while True:
                try:
                    with outcome():
                        await self.fence.renew(await self._lease.get())
                except (UnknownOutcomeError, DatabaseError):
                    self._lease.drop()
                await asyncio.sleep(RENEWED_EVERY_S)
        except KohortError:
            pass  # the fence has told it
        finally:
            self._lease.drop()

    def confirm_start(self) -> None:
        """Renew the node's lease from now on."""
        self._loop = asyncio.get_running_loop()
        self._renewing = self._loop.create_task(self._renew())

    def stop_opening(self) -> None:
        self._stopped = True

    def _go_on(self, checked: int = 0) -> None:  # noqa: ARG002
        if self._stopped:
            raise OpeningStoppedError

    # Opening

    def recover(self, logs: Iterable[tuple[TopicPartition, LogConfig, int]]) -> None:
        pass

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        synced_by_owner: bool = False,
        leader_epoch: int = 0,
    ) -> PostgresLog | OfflineLog:
        log = self._logs.get(topic_partition)
        if log is None:
            self._go_on()
            if leader_epoch:
                self._leader_epochs[topic_partition] = leader_epoch
            if synced_by_owner:
                self._owned.add(topic_partition)
            number = self.directories.number(topic_partition)
            stored = self._stored.pop(number, None)
            if stored is None:
                stored = StoredLog(number, topic_partition, None)
            log = self._logs[topic_partition] = self._opened(stored, config)
        return log

    def _opened(self, stored: StoredLog, config: LogConfig) -> PostgresLog | OfflineLog:
        try:
            return self._built(stored, config)
        except (KafkaError, OSError) as error:
            self.problems.begin(stored.topic_partition, str(error))
            if isinstance(error, OSError):
                message = f"the log cannot be opened, which is tried again: {error}"
                refusal = KafkaError(ErrorCode.kafka_storage_error, message)
                return OfflineLog(stored.topic_partition, config, refusal, can_reopen=True)
            return OfflineLog(stored.topic_partition, config, error)

    def _built(self, stored: StoredLog, config: LogConfig) -> PostgresLog:
        return self._session.open(
            stored,
            config,
            self._go_on,
            synced_by_owner=stored.topic_partition in self._owned,
            leader_epochs=epochs_of(stored, self._leader_epochs.get(stored.topic_partition, 0)),
        )

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        failure = KafkaError(ErrorCode.kafka_storage_error, why)
        self.problems.begin(topic_partition, failure.message)
        self._logs[topic_partition] = OfflineLog(topic_partition, LogConfig(), failure)

    async def reopen(self) -> None:
        for log in [each for each in self._logs.values() if each.can_reopen]:
            if self.fence.lost is not None or self._logs.get(log.topic_partition) is not log:
                continue
            try:
                opened = await asyncio.to_thread(self._read_again, log)
            except (KafkaError, OSError) as error:
                logger.error("%s cannot be opened again: %s", log.topic_partition, error)
                continue
            if self._logs.get(log.topic_partition) is log:
                self._logs[log.topic_partition] = opened
                self.problems.end_all(log.topic_partition)
                for tell in self.on_reopened:
                    tell(opened)

    def _read_again(self, log: PostgresLog | OfflineLog) -> PostgresLog:
        number = self.directories.number(log.topic_partition)

        async def read(connection: Connection) -> StoredLog:
            await self._history.ensure(connection)
            return (await read_logs(connection, [number]))[number]

        return self._built(self._control.query(read), log.config)

    # Removing

    def retire(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)
            self.problems.forget(topic_partition)
            self._leader_epochs.pop(topic_partition, None)

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.retire(topic_partition)
        self.directories.remove(topic_partition, topic_id)

    def names(self) -> Iterable[TopicPartition]:
        return tuple(self.directories)

    async def retain(self, now: Timestamp) -> None:
        await retain_all(self._logs.values(), now)
        self._session.removing.sweep(self._stray_retention_ms)

    async def compact(self, now: Timestamp) -> None:
        await compact_all(self._logs.values(), now)

    # The end

    def close(self) -> None:
        """Write what is left, close every log, and let the node go. Idempotent.

        Raises OSError if something was not written.
        """
        if self._closed:
            return
        self._closed = self._stopped = True
        if self._renewing is not None:
            with contextlib.suppress(RuntimeError):  # its event loop has ended
                self._renewing.cancel()
        self._lease.drop()
        failures: list[Exception] = []
        for log in self._logs.values():
            try:
                log.close()
            except (OSError, KohortError) as error:
                failures.append(error.with_traceback(None))
        self._logs.clear()
        self._reader.stop()
        self._session.stop()
        try:
            if self.fence.lost is None:
                self._control.run(self._drain())
        except (UnknownOutcomeError, OSError, KohortError) as error:
            failures.append(error.with_traceback(None))
        finally:
            self._control.close()
        if failures:
            raise DatabaseError(None, f"not all was written to PostgreSQL: {failures[0]}")

    async def _drain(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        link = self._control.link

        def gave_up() -> bool:
            return time.monotonic() > deadline

        await self._session.drain(link, gave_up)
        with outcome():
            await self.fence.release(await link.get())
