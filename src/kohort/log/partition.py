"""The log of one partition: appends, transactions, and the removal of old records.

The same code runs on files and on memory. A `Backing` stores segments and the other state. The log
is built up in three steps, each of which is whole without the next:

    ReadableLog     segments, offsets, reads, waiters
    SyncedLog       what of it is durable, its checkpoint
    PartitionLog    appends, transactions, retention, compaction
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping

from kohort.errors import ErrorCode, KafkaError
from kohort.log import retention
from kohort.log.aborted_index import AbortedTransaction, IndexState
from kohort.log.backing import Backing, Checkpoint
from kohort.log.base import Appended, LogConfig
from kohort.log.durability import Commit, Syncable
from kohort.log.leader_epochs import ONLY, LeaderEpochs
from kohort.log.partition_cleaner import PartitionCleaner
from kohort.log.problems import Problems
from kohort.log.producer_states import ActiveProducer, VerificationStateEntry
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress
from kohort.log.segment_storage import MAX_SEGMENT_SIZE
from kohort.log.synced_log import SyncedLog
from kohort.protocol.batch_format import SIZE_OVERHEAD, START
from kohort.protocol.batches import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Buffer,
    EndTransactionMarker,
    Header,
    control_batch,
    head,
    read_header,
    stamp_append_time,
)
from kohort.types import Timestamp, TopicPartition
from kohort.util.time_slice import TimeSlices


class PartitionLog(SyncedLog):
    """One partition of one topic; the `Log` of both kinds of directory."""

    __slots__ = ("_cleaner", "config", "in_leader_transition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        backing: Backing,
        segments: list[Segment],
        checkpoint: Checkpoint = Checkpoint(),  # noqa: B008 - it is immutable
        commit: Callable[[Syncable], Commit] | None = None,
        problems: Problems | None = None,
        leader_epochs: LeaderEpochs = ONLY,
    ) -> None:
        """`segments` are in order, durable, the last one ready to append; `leader_epochs` are
        stored.

        `commit` makes what has appends durable; None if they are once they are in their segment.
        """
        problems = Problems() if problems is None else problems
        super().__init__(
            topic_partition, backing, segments, checkpoint, commit, problems, leader_epochs
        )
        self.in_leader_transition = False
        self._cleaner: PartitionCleaner | None = None
        """The compaction under way."""
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._segments.roll_bytes = min(config.segment_bytes, MAX_SEGMENT_SIZE)
        self._segments.roll_ms = config.segment_ms
        if config.is_compacted:
            # The active segment is never compacted.
            self._segments.roll_ms = min(config.segment_ms, config.max_compaction_lag_ms)

    # Appending

    def append(
        self,
        batch: Buffer,
        now: Timestamp,
        *,
        verified: VerificationStateEntry | None = None,
        awaited: int | None = None,
    ) -> Appended:
        if self._closed is not None:
            raise self._refusal()
        header = read_header(batch)
        size = header.length + SIZE_OVERHEAD
        if size > self.config.segment_bytes:
            raise _too_large(size)
        if size > len(batch):
            raise KafkaError(ErrorCode.corrupt_message, f"{len(batch)} of {size} bytes of a batch")
        if header.producer_id >= 0 or header.attributes & TRANSACTIONAL:
            sent = self._producers.loaded().validate(
                header, verified, awaited, from_first=self.in_leader_transition
            )
            if sent is not None:
                return Appended(sent.base_offset, sent.last_offset, sent.timestamp, True)
        self._check_disk()
        if header.attributes & TRANSACTIONAL and not self._producers.is_transactional:
            self._producers.become_transactional()
        base_offset = self.end_offset
        timestamp, append_time = self._write(batch, header, size, now)
        if header.producer_id >= 0:
            self._producers.loaded().add(header, base_offset, timestamp, now)
        self._stored(size)
        return Appended(base_offset, self.end_offset - 1, append_time)

    def append_encoded(self, content: bytes, count: int, now: Timestamp) -> None:
        if self._closed is not None:
            raise self._refusal()
        size = HEADER_SIZE + len(content)
        if size > self.config.segment_bytes:
            raise _too_large(size)
        if self._commit is not None:
            self._check_disk()
        attributes = LOG_APPEND_TIME if self.config.log_append_time else 0
        header = head(self.end_offset, self.leader_epoch, content, count, now, attributes)
        self._store((header, content), size, self.end_offset + count - 1, now, now)
        self._stored(size)

    def _write(self, batch: Buffer, header: Header, size: int, now: Timestamp) -> tuple[int, int]:
        """Store a batch; returns its max timestamp as stored, and the append time or -1."""
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp, append_time = header.max_timestamp, -1
        if self.config.log_append_time:
            timestamp = append_time = int(now)
            header = header._replace(
                base_offset=base_offset, partition_leader_epoch=self.leader_epoch
            )
            parts = stamp_append_time(batch, header, now), memoryview(batch)[HEADER_SIZE:size]
        else:
            parts = (
                START.pack(base_offset, header.length, self.leader_epoch),
                memoryview(batch)[START.size : size],
            )
        self._store(parts, size, last_offset, timestamp, now)
        return timestamp, append_time

    def _store(
        self, parts: tuple[Buffer, ...], size: int, last_offset: int, timestamp: int, now: int
    ) -> None:
        segments = self._segments
        segment = segments.active
        try:
            if segment.log.size and segments.is_full(size, last_offset, timestamp, now):
                segment = self._roll()
            segment.append(parts, size, last_offset, timestamp, now)
        except OSError as error:
            self._problems.append_refused(self.topic_partition, error, size)
            raise
        if self._problems.refused_appends:
            self._problems.append_accepted(self.topic_partition, size)
        self.end_offset = last_offset + 1
        segments.size += size

    def _stored(self, size: int) -> None:
        """Update sizes and waiters after an append."""
        self._producers.appended(size)
        if self._commit is not None:
            self._commit.request()  # readers learn when it is durable
            return
        self.high_watermark = self.end_offset
        if self._listeners:
            self._notify()

    def _roll(self) -> Segment:
        """Begin a new segment."""
        segment = self._segments.roll(self.end_offset, self.config.index_interval_bytes)
        # it would only have made recovery after a crash of the machine shorter
        with contextlib.suppress(OSError):
            self._save()
        return segment

    # Producers and transactions

    def ongoing_transaction(self, producer_id: int, producer_epoch: int) -> int | None:
        self.ensure_open()
        return self._producers.loaded().ongoing(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now: Timestamp, *, tv2: bool
    ) -> VerificationStateEntry:
        self.ensure_open()
        return self._producers.loaded().verify(
            producer_id, producer_epoch, sequence, tv2=tv2, now=now
        )

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp: int,
    ) -> int:
        self.ensure_open()
        producers = self._producers.loaded()
        producers.validate_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        self._check_disk()
        if not self._producers.is_transactional:
            self._producers.become_transactional()
        marker = EndTransactionMarker(commit, coordinator_epoch)
        batch = control_batch(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        header, offset = read_header(batch), self.end_offset
        stored_at, _ = self._write(batch, header, len(batch), Timestamp(timestamp))
        aborted = producers.end(header, marker, offset, stored_at, timestamp)
        if aborted is not None:
            self._index_aborted(aborted)
        self._stored(len(batch))
        producers.first_unstable(self.high_watermark)  # forgets what is decided
        return offset

    def _index_aborted(self, transaction: AbortedTransaction) -> None:
        """Add the transaction to the index of the segment that has its marker.

        If that fails the log is opened again, which creates the entry from the marker.
        """
        try:
            self._segments.active.aborted.add(transaction)
        except OSError as error:
            self.fail(f"an aborted transaction could not be indexed ({error.strerror or error})")
            raise

    def active_producers(self) -> Iterator[ActiveProducer]:
        self.ensure_open()
        return self._producers.loaded().active()

    def restore_producers(self, progress: Progress, *, crashed: bool = False) -> None:
        """Read the producers after the log was opened, if it needs them: see `restore`."""
        self._producers.restore(progress, crashed=crashed)

    def producers_for(self, indexes: Mapping[int, IndexState]) -> bytearray:
        """A snapshot of the producers for a log whose segments have these indexes of aborted
        transactions, by base offset. Raises KafkaError, OSError.
        """
        self.ensure_open()
        return self._producers.snapshot_for(indexes)

    # Removing

    def trim(self, before: int) -> None:
        self.ensure_open()
        if before > self.end_offset:
            raise self._out_of_range(before)
        if before <= self.start_offset:
            return
        former, self.start_offset = self.start_offset, before
        self._segments.changes += 1
        try:
            self._save()
        except OSError:
            self.start_offset = former
            raise
        if self._commit is not None:
            self._commit.request()
        self._notify()

    async def retain(self, now: Timestamp) -> int:
        self.ensure_open()
        self._producers.expire(now - self.config.producer_id_expiration_ms)
        deleted, slices = 0, TimeSlices()
        while self._closed is None and (due := self._due_segments(now, slices)):
            deleted += due
            await self._delete(due)
            await slices.give_way()
        if self._closed is None:
            with contextlib.suppress(OSError):
                self._save()
        return deleted

    def _due_segments(self, now: Timestamp, slices: TimeSlices) -> int:
        """Number of leading segments to delete now: at least one if any is due, and no more than
        are found within the slice.
        """
        segments, size, due = self._segments, self.size, 0
        while due < len(segments) and not (due and slices.is_over):
            segment = segments[due]
            following = segments[due + 1] if due + 1 < len(segments) else None
            # As in Kafka, the log never starts behind what readers see.
            if segment.end_offset > self.high_watermark or not retention.is_due(
                segment, following, size, self.config, self.start_offset, now
            ):
                break
            size -= segment.size
            due += 1
        return due

    async def _delete(self, count: int) -> None:
        """Delete the first `count` segments; a log never has none."""
        if count == len(self._segments):
            # The end offset is only known from segments, so the empty one that is left has to
            # exist.
            self._roll().log.create()
        removed = self._segments.remove_first(count)
        self.start_offset = max(self.start_offset, self._segments[0].base_offset)
        if not self._producers.is_empty:
            self._producers.save()  # the batches that tell of them are gone after a restart
        # Who opens the log before all files are gone finds that it starts behind them.
        with contextlib.suppress(OSError):
            self._save()
        remove_files = self._backing.discard(removed)
        self._notify()
        if remove_files is not None:
            await asyncio.to_thread(remove_files)

    # Compaction

    async def compact(self, now: Timestamp) -> bool:
        self.ensure_open()
        if len(self._segments) == 1 or self._cleaner or not self.config.is_compacted:
            return False
        self._cleaner = PartitionCleaner(self, self._segments, self._producers, self._backing)
        try:
            return await self._cleaner.run(now)
        finally:
            self._cleaner.ended.set()
            self._cleaner = None

    def compacted(self) -> None:
        """Store that a compaction has replaced segments. Raises OSError."""
        self._save()
        if self._producers.is_transactional:
            self._producers.save()  # it has the indexes of aborted transactions
        if self._commit is not None:
            self._commit.request()

    def _truncate(self, end_offset: int) -> None:
        if self._cleaner is not None:
            self._cleaner.drop_swap()
        super()._truncate(end_offset)

    # The end

    def close(self) -> None:
        if self._closed is not None:
            return
        try:
            if self._producers.is_loaded:
                self._producers.save()
            self.sync(self.unsynced())
            self._save()
            self._backing.pending_save()()
            self._check_disk()
        finally:
            self.end(ErrorCode.not_leader_or_follower)

    def end(self, code: ErrorCode) -> None:
        if self._cleaner is not None:
            self._cleaner.stop()
        super().end(code)

    async def work_ended(self) -> bool:
        if self._cleaner is not None:
            await self._cleaner.ended.wait()
        return await super().work_ended()


def _too_large(size: int) -> KafkaError:
    return KafkaError(ErrorCode.record_list_too_large, f"{size} bytes do not fit into a segment")
