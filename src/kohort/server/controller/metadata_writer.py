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
from kohort.util.uncancelled import uncancelled

DEFAULT_TIMEOUT_S: Final = 30.0
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
        """The nodes that follow the metadata log."""
        self.on_acls_changed: list[Callable[[], None]] = []
        """Called after each change of the ACLs."""
        self._replicas = replicas
        self._deletions = replicas.deletions
        self._config = config
        self._changing = asyncio.Lock()
        """Held by each change of topics that waits in between."""
        self._has_deadlines = isinstance(metadata, SharedMetadataLog)
        """Whether changes time out: only those that depend on other nodes do."""
        self._tasks: set[asyncio.Task[Any]] = set()
        metadata.on_rollback = self._on_rolled_back

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
        """Apply replayed records to what depends on them: broker configs, ACLs, producer ids."""
        kinds = {type(record) for record in records}
        if ConfigRecord in kinds:
            self.configuration.apply_to(self._config)
        if not kinds.isdisjoint((AccessControlEntryRecord, RemoveAccessControlEntryRecord)):
            self._notify_acls_changed()
        if ProducerIdsRecord in kinds:
            self.producer_ids.reserved(self.metadata.state.producer_ids_end)

    def _notify_acls_changed(self) -> None:
        for callback in self.on_acls_changed:
            callback()

    @property
    def last_change(self) -> int:
        """Number of the latest change, for `durable` and `became_durable`."""
        return self.metadata.last_change

    async def durable(self, change: int | None = None) -> None:
        """Return when that change, or every change so far, is on the disk.

        Raises KafkaError KAFKA_STORAGE_ERROR if it was rolled back.
        """
        deleted = self._deletions.pending()
        try:
            await self.metadata.durable(change)
        except OSError as error:
            await self._replicas.rollback.finish_in_slices()
            raise storage_error(error) from error
        await self.followers.await_caught_up(self.metadata.end_offset)
        await self._deletions.finish(deleted)

    def flush(self) -> None:
        """`durable`, blocking until it is done, on the node that has the metadata log."""
        assert isinstance(self.metadata, LocalMetadataLog)
        try:
            self.metadata.flush()
        except OSError as error:
            raise storage_error(error) from error
        self._deletions.finish_all()

    async def became_durable(self, change: int | None) -> bool:
        """Wait until a change is durable, or every change so far; False if it was superseded.

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
        """Commit what `decide` returns, as `until_durable` does: the records are durable."""
        await self.until_durable(lambda: self.commit(*decide()))

    async def until_durable(self, change: Callable[[], R]) -> R:
        """The result of `change`, once it is durable.

        `change` is called again while other nodes change the same subject first. Raises what it
        raises, KafkaError KAFKA_STORAGE_ERROR, and REQUEST_TIMED_OUT as `with_deadline` does.
        """

        async def decide() -> R:
            return change()

        return await self.until_durable_async(decide)

    async def until_durable_async(self, change: Callable[[], Awaitable[R]]) -> R:
        """`until_durable` of a change that waits for something before it is made."""

        async def run() -> R:
            while True:
                before, result = self.last_change, await change()
                # Changes of others need not be durable yet.
                number = None if self.last_change == before else self.last_change
                if await self.became_durable(number):
                    return result

        return await self.with_deadline(run())

    async def change(self, work: Coroutine[Any, Any, R], deadline: float | None = None) -> R:
        """Run a change after all others. A cancelled caller does not end it early.

        Raises KafkaError REQUEST_TIMED_OUT as `with_deadline` does; a change that has not begun by
        then is not made.
        """

        async def run() -> R:
            try:
                async with self._changing:
                    await self._replicas.rollback.finish_in_slices()
                    self._ensure_before(deadline)
                    return await work
            finally:
                work.close()  # if it was cancelled before it began

        return await self.with_deadline(uncancelled(run(), self._tasks), deadline)

    async def append(
        self, decide: Callable[[], Sequence[MetadataRecord]], result: Callable[[], R]
    ) -> R:
        """`SharedMetadataLog.change`; its errors are those for a client."""
        assert isinstance(self.metadata, SharedMetadataLog)
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

    # Waiting for other nodes

    async def catch_up(self, deadline: float | None = None) -> None:
        """Read the records that other nodes logged before this call; a request may depend on them.

        Errors of the storage are ignored: the change itself fails with them.
        """
        if isinstance(self.metadata, SharedMetadataLog):
            with suppress(OSError, FencedError, KafkaError, UnknownOutcomeError):
                await self.with_deadline(self.metadata.read_to_end(), deadline)

    def _ensure_before(self, deadline: float | None) -> None:
        """Raise KafkaError REQUEST_TIMED_OUT if `with_deadline` would not wait any more."""
        if not self._has_deadlines or deadline is None:
            return
        if asyncio.get_running_loop().time() >= deadline:
            raise _timed_out()

    async def with_deadline(self, work: Awaitable[R], deadline: float | None = None) -> R:
        """The outcome of a change, which this node waits for without limit if the disk is its own.

        A node that shares the metadata log raises KafkaError REQUEST_TIMED_OUT at `deadline`, by
        the clock of the event loop, or after 30 s: the change may have been made, or may yet be.
        """
        if not self._has_deadlines:
            return await work
        latest = asyncio.get_running_loop().time() + DEFAULT_TIMEOUT_S
        try:
            async with asyncio.timeout_at(latest if deadline is None else deadline) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise _timed_out() from None

    # Rolling back

    def _on_rolled_back(self, ids: Iterable[UUID]) -> None:
        """Apply the metadata as it is after a rollback; `ids` are those of changed topics."""
        self._replicas.rollback.begin(ids)
        self.configuration.apply_to(self._config)
        self._notify_acls_changed()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._replicas.rollback.finish()
        else:
            task = loop.create_task(self._replicas.rollback.finish_in_slices())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _timed_out() -> KafkaError:
    text = "The request timed out; what it asked for may have been done, or may yet be."
    return KafkaError(ErrorCode.request_timed_out, text)
