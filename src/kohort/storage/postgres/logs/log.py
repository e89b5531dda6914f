"""The log of one partition in PostgreSQL: what differs from the logs of files."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kohort.cluster import FencedError
from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.aborted_index import AbortedTransaction
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.durability import Commit, Syncable
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.partition import PartitionLog
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress
from kohort.log.stores import Records
from kohort.log.timestamp_lookup import Lookup
from kohort.storage.postgres.logs.backing import MAX_SEGMENT_BYTES, LogContext, PostgresBacking
from kohort.storage.postgres.logs.lane import LaneCommit
from kohort.storage.postgres.logs.operations import Operation
from kohort.storage.postgres.logs.pages import NotInMemoryError, PagedStore
from kohort.types import Timestamp, TopicPartition
from kohort.util.time_slice import TimeSlices

_MIN_READ_BYTES = 64 * 1024
_REPLACEMENT_POLL_INTERVAL_S = 0.01
"""Pause before another look at a segment that is being replaced by a compacted one."""


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """State of a stored log when it is opened."""

    segments: list[Segment]
    checkpoint: Checkpoint
    leader_epochs: LeaderEpochs


class PostgresLog(PartitionLog):
    """A `Log` whose batches are rows."""

    __slots__ = ("_context", "_failure", "_loading", "_rows", "_trimming")

    syncs_in_order = True

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        backing: PostgresBacking,
        stored: RestoredLog,
        commit: Callable[[Syncable], Commit],
        context: LogContext,
    ) -> None:
        super().__init__(
            topic_partition,
            config,
            backing,
            stored.segments,
            stored.checkpoint,
            commit,
            context.problems,
            leader_epochs=stored.leader_epochs,
        )
        self._rows = backing
        self._context = context
        self._loading: dict[PagedStore, asyncio.Task[None]] = {}
        self._failure: OSError | KafkaError | None = None
        """Why records could not be loaded; the next read raises it."""
        self._trimming: Operation | None = None
        """Stores the start offset that was asked for last."""
        backing.appended = self._appended
        backing.refused = self.storage_failed

    @property
    def number(self) -> int:
        """The number of the log in the tables."""
        return self._rows.number

    @property
    def stored_end(self) -> int:
        """Offset up to which the log was acknowledged, so all is in the table."""
        return self.high_watermark

    @property
    def is_removed(self) -> bool:
        """True if its topic was deleted; its rows are removed."""
        return self._closed is ErrorCode.unknown_topic_or_partition

    @property
    def can_reopen(self) -> bool:
        """True if the log ended because the storage failed, and no write of it is in flight."""
        is_written = not isinstance(self._commit, LaneCommit) or self._commit.is_settled
        is_stored = self._context.operations.is_settled(self.number)
        return super().can_reopen and is_written and is_stored

    async def _appended(self) -> None:
        assert self._commit is not None
        await self._commit.wait()

    def configure(self, config: LogConfig) -> None:
        super().configure(
            replace(config, segment_bytes=min(config.segment_bytes, MAX_SEGMENT_BYTES))
        )

    def _check_disk(self) -> None:
        if self._commit is not None and (failure := self._commit.failure) is not None:
            raise fresh(failure)

    # Reading what is not in memory

    def _read_up_to(self, limit: int, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise fresh(failure)
        try:
            return super()._read_up_to(limit, offset, max_bytes, at_least_one)
        except NotInMemoryError as missing:
            self._load(missing)
            return b""

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Records, list[AbortedTransaction]]:
        try:
            return super().read_committed(offset, max_bytes, at_least_one=at_least_one)
        except NotInMemoryError as missing:
            self._load(missing)
            return b"", []

    def next_offset_after(self, offset: int, size: int) -> int:
        try:
            return super().next_offset_after(offset, size)
        except NotInMemoryError:
            return offset + 1

    def _load(self, missing: NotInMemoryError) -> None:
        if missing.store not in self._loading:
            task = asyncio.get_running_loop().create_task(self._loaded(missing))
            self._loading[missing.store] = task

    async def _loaded(self, missing: NotInMemoryError) -> None:
        try:
            await self._context.reader.load(missing.store, missing.page)
            if not missing.store.is_current:
                await asyncio.sleep(_REPLACEMENT_POLL_INTERVAL_S)
        except (OSError, KafkaError) as error:
            self._failure = fresh(error)
        finally:
            del self._loading[missing.store]
            self._notify()

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    async def loaded(self) -> None:
        while self._loading:
            await asyncio.wait(tuple(self._loading.values()))

    def _while_unchanged(self, begin: Callable[[], Lookup]) -> Lookup:
        while True:
            try:
                return (yield from super()._while_unchanged(begin))
            except NotInMemoryError as missing:
                yield partial(self._load_in_thread, missing)

    def _load_in_thread(self, missing: NotInMemoryError) -> None:
        store = missing.store
        if not store.is_current:
            time.sleep(_REPLACEMENT_POLL_INTERVAL_S)
        elif not store.has(missing.page):
            rows = self._context.reader.read_blocking(store.rows_of(missing.page))
            if store.is_current:
                store.loaded(missing.page, rows)

    # State

    def restore_producers(self, progress: Progress, *, crashed: bool = False) -> None:  # noqa: ARG002
        """Read the producers, blocking; an append could not wait for that later."""
        self._producers.restore_all(progress)
        self._rows.forget_producers()

    def end(self, code: ErrorCode) -> None:
        self._rows.is_over = True
        super().end(code)

    def close(self) -> None:
        # Few rows behind the last snapshot are read sooner than another one is stored.
        if self._producers.unsaved_bytes <= _MIN_READ_BYTES:
            self._producers.forget()
        super().close()

    async def written(self) -> None:
        """Return when all is written that was appended and stored, also after `close`.

        Raises OSError or KohortError if it was not.
        """
        await self._rows.appended()
        await self._context.operations.settled(self._rows.number)

    def trim(self, before: int) -> None:
        super().trim(before)
        self._trimming = self._rows.saving

    def _due_segments(self, now: Timestamp, slices: TimeSlices) -> int:
        return 0 if self._rows.is_swapping else super()._due_segments(now, slices)

    async def _delete(self, count: int) -> None:
        if self._producers.is_empty:
            self._producers.save()  # a start is not to read what is yet to be removed
        await super()._delete(count)

    async def compact(self, now: Timestamp) -> bool:
        try:
            return await super().compact(now)
        except NotInMemoryError as missing:  # for the plan: the next time it is there
            self._load(missing)
            return False

    async def durable(self) -> None:
        if self._closed is not None:
            raise self._refusal()
        try:
            await super().durable()
            if self._trimming is not None:
                await self._context.operations.done(self._trimming)
        except FencedError as error:
            raise KafkaError(ErrorCode.not_leader_or_follower, str(error)) from error

    def storage_failed(self, error: Exception) -> None:
        """End the log after a failed write; it is reopened from the tables."""
        self._rows.fail(error)
        if self._closed is not None:
            return
        if isinstance(error, FencedError):
            self.end(ErrorCode.not_leader_or_follower)
            return
        self._problems.begin(
            self.topic_partition, f"a write was refused ({error}); the log is opened again"
        )
        self.end(ErrorCode.kafka_storage_error)
