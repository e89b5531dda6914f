"""The one writer of the metadata: it commits records, and waits until they are durable.

A change happens in this order, so that a power loss at any point leaves topics and data consistent:

1. it is validated;
2. a creation or growth makes the directories of its partitions, marked with the topic's id, and
   they are on the disk;
3. the record is appended and replayed, which is the moment when it happened: a topic that Metadata
   shows takes appends, a deleted one does not;
4. the record is on the disk (`durable`), and only then the response is sent;
5. the directories of a deleted topic are removed, and groups forget its offsets.

Changes by clients follow one another (`change`), and wait for the disk in other threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import UUID

from kohort.cluster import FencedError, UnknownOutcomeError
from kohort.errors import ErrorCode, KafkaError
from kohort.server.config import Config
from kohort.server.controller.configuration_control import ConfigurationControl
from kohort.server.controller.followers import Followers
from kohort.server.controller.producer_id_control import ProducerIdControl
from kohort.server.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    SupersededError,
    storage_error,
)
from kohort.server.metadata_log import (
    LocalMetadataLog,
    MetadataLog,
    OutcomeLostError,
    SharedMetadataLog,
)
from kohort.server.replicas import ReplicaManager

CHANGED_WITHIN_S: Final = 30.0
"""Time that a client waits for a change if its request has no timeout of its own: Kafka's default
`request.timeout.ms`."""

R = TypeVar("R")


class MetadataWriter:
    """Commits changes of the metadata, and undoes those that did not reach the disk."""

    def __init__(
        self,
        metadata: MetadataLog,
        replicas: ReplicaManager,
        config: Config,
    ) -> None:
        """`config` is that of the node, in which configs of brokers come into force."""
        self.metadata = metadata
        self.configuration = ConfigurationControl(metadata.state)
        self.producer_ids = ProducerIdControl(metadata.state)
        self.followers = Followers()
        """The nodes that are told of every change."""
        self.on_acls_changed: list[Callable[[], None]] = []
        """Called after each change of the ACLs."""
        self._replicas = replicas
        self._deletions = replicas.deletions
        self._config = config
        self._changing = asyncio.Lock()
        """Held by each change of topics that waits in between."""
        self._tasks: set[asyncio.Task[Any]] = set()
        metadata.on_rollback = self._rolled_back

    # Committing

    def commit(self, *records: MetadataRecord) -> None:
        """Log the records together, and replay them. No-op without records.

        Their keys and values must fit into one batch (`in_batches`). Raises KafkaError
        KAFKA_STORAGE_ERROR.
        """
        if records:
            self.metadata.commit(*records)
            self.publish(*records)

    def publish(self, *records: MetadataRecord) -> None:
        """Have records that were replayed act: configs of brokers, ACLs, producer ids."""
        kinds = {type(record) for record in records}
        if ConfigRecord in kinds:
            self.configuration.apply_to(self._config)
        if not kinds.isdisjoint((AccessControlEntryRecord, RemoveAccessControlEntryRecord)):
            self._tell_acls_changed()
        if ProducerIdsRecord in kinds:
            self.producer_ids.reserved(self.metadata.state.producer_ids_end)

    def _tell_acls_changed(self) -> None:
        for tell in self.on_acls_changed:
            tell()

    @property
    def last_change(self) -> int:
        """Number of the latest change, for `durable` and `is_kept`."""
        return self.metadata.last_change

    async def durable(self, change: int | None = None) -> None:
        """Return when that change, or every change so far, is on the disk.

        Raises KafkaError KAFKA_STORAGE_ERROR if it was rolled back.
        """
        deleted = self._deletions.pending()
        try:
            await self.metadata.durable(change)
        except OSError as error:
            await self._replicas.rollback.finished()
            raise storage_error(error) from error
        await self.followers.know(self.metadata.end_offset)
        await self._deletions.finish(deleted)

    def flush(self) -> None:
        """`durable`, blocking until it is done, on the node that has the metadata log."""
        assert isinstance(self.metadata, LocalMetadataLog)
        try:
            self.metadata.flush()
        except OSError as error:
            raise storage_error(error) from error
        self._deletions.finish_all()

    async def is_kept(self, change: int | None) -> bool:
        """Whether a change is durable, or every change so far; else others had changed the same.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        try:
            await self.durable(change)
        except KafkaError as error:
            if isinstance(error.__cause__, SupersededError):
                return False
            raise
        return True

    # Deciding

    async def write(self, decide: Callable[[], Sequence[MetadataRecord]]) -> None:
        """Commit what `decide` returns, as `decided` does: the records are durable."""
        await self.decided(lambda: self.commit(*decide()))

    async def decided(self, change: Callable[[], R]) -> R:
        """What `change` returns, once that is durable.

        It is called again as long as another node has changed the same before. Raises what it
        raises, KafkaError KAFKA_STORAGE_ERROR, and REQUEST_TIMED_OUT as `in_time` does.
        """

        async def decide() -> R:
            return change()

        return await self.decided_later(decide)

    async def decided_later(self, change: Callable[[], Awaitable[R]]) -> R:
        """`decided` of a change that waits for something before it is made."""

        async def run() -> R:
            while True:
                before, result = self.last_change, await change()
                # What others have made of it before need not be durable yet.
                number = None if self.last_change == before else self.last_change
                if await self.is_kept(number):
                    return result

        return await self.in_time(run())

    async def change(self, work: Coroutine[Any, Any, R], deadline: float | None = None) -> R:
        """Run a change after all others. A cancelled caller does not end it early.

        Raises KafkaError REQUEST_TIMED_OUT as `in_time` does; a change that has not begun by then
        is not made.
        """

        async def run() -> R:
            try:
                async with self._changing:
                    await self._replicas.rollback.finished()
                    self.ensure_in_time(deadline)
                    return await work
            finally:
                work.close()  # if it was cancelled before it began

        return await self.in_time(asyncio.shield(self._start(run())), deadline)

    def _start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def catch_up(self, deadline: float | None = None) -> None:
        """Know what was logged before this call, which a change may follow on another node.

        If the storage does not tell it, neither is the change logged, and says why.
        """

    def ensure_in_time(self, deadline: float | None) -> None:
        """Raise KafkaError REQUEST_TIMED_OUT if the outcome would be awaited no more."""

    async def in_time(self, work: Awaitable[R], deadline: float | None = None) -> R:
        """The outcome of a change. A server alone, which waits for its own disk, has no limit.

        One of several raises KafkaError REQUEST_TIMED_OUT at `deadline`, by the clock of the event
        loop, or after 30 s: the change may have been made, or may yet be.
        """
        _ = deadline
        return await work

    # Rolling back

    def _rolled_back(self, ids: Iterable[UUID]) -> None:
        """Have what acts by the metadata as it says again; `ids` are those of changed topics."""
        self._replicas.rollback.begin(ids)
        self.configuration.apply_to(self._config)
        self._tell_acls_changed()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._replicas.rollback.finish()
        else:
            self._start(self._replicas.rollback.finished())


class SharedMetadataWriter(MetadataWriter):
    """The writer of a node that shares the metadata log with others, each of which may append."""

    metadata: SharedMetadataLog

    async def append(
        self, decide: Callable[[], Sequence[MetadataRecord]], result: Callable[[], R]
    ) -> R:
        """`SharedMetadataLog.change`; its errors are those for a client."""
        try:
            return await self.metadata.change(decide, result)
        except OutcomeLostError as error:
            raise _timed_out() from error
        except UnknownOutcomeError as error:
            why = OSError(None, "the database does not respond")
            raise storage_error(why) from error
        except FencedError as error:
            raise storage_error(OSError(None, str(error))) from error
        except OSError as error:
            raise storage_error(error) from error

    async def catch_up(self, deadline: float | None = None) -> None:
        with suppress(OSError, FencedError, KafkaError, UnknownOutcomeError):
            await self.in_time(self.metadata.read_to_end(), deadline)

    def ensure_in_time(self, deadline: float | None) -> None:
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            raise _timed_out()

    async def in_time(self, work: Awaitable[R], deadline: float | None = None) -> R:
        latest = asyncio.get_running_loop().time() + CHANGED_WITHIN_S
        try:
            async with asyncio.timeout_at(latest if deadline is None else deadline) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise _timed_out() from None


def _timed_out() -> KafkaError:
    text = "The request timed out; what it asked for may have been done, or may yet be."
    return KafkaError(ErrorCode.request_timed_out, text)
