"""The log of one partition: its segments, its producers, and its waiters.

The same code runs on files and on memory. A `Backing` stores segments and the other state.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log import lookup, producer_state, retention
from kohort.log.aborted_index import AbortedIndex, AbortedTransaction, IndexState
from kohort.log.backing import Backing, Checkpoint
from kohort.log.base import Appended, LogConfig
from kohort.log.compaction import Cleaned, Compaction, StoppedError
from kohort.log.damage import CorruptLogError
from kohort.log.durability import Commit, Syncable, sync_all
from kohort.log.leader_epochs import ONLY, EpochEntry, LeaderEpochs
from kohort.log.lookup import Found, Lookup
from kohort.log.problems import Problems
from kohort.log.producers import (
    DISCARDED,
    ActiveProducer,
    Producers,
    Snapshot,
    Verification,
)
from kohort.log.segment import LARGEST, Progress, Segment, WrongIndexError, unobserved
from kohort.log.storage import Records, loaded
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
from kohort.util.time_slice import TimeSlices, in_slices

_SNAPSHOT_BYTES = 4 * 1024 * 1024
"""Bytes appended between two snapshots of the producers, which bounds the scan after a crash."""
_SMALL_BATCH = 200
"""Bytes as which a smaller batch counts for that: 20,000 producers take 20 ms of a snapshot."""
_MOST_ABORTED = 5_000
"""Aborted transactions that one read names (some 5 ms), unless its first batch alone has more."""


class PartitionLog:
    """One partition of one topic; the `Log` of both kinds of directory."""

    __slots__ = (
        "_backing", "_changes", "_cleaned", "_closed", "_commit", "_compaction", "_durable_at",
        "_is_new", "_is_transactional", "_listeners", "_problems",
        "_producers", "_roll_bytes", "_roll_ms", "_saved", "_saving", "_segments",
        "_since_snapshot",
        "_syncing", "_unknown", "config",
        "end_offset", "high_watermark", "is_newly_led", "leader_epoch", "leader_epochs", "size",
        "start_offset", "topic_partition",
    )  # fmt: skip

    syncs_in_order = False

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
        self.topic_partition = topic_partition
        self.leader_epochs = leader_epochs
        self.leader_epoch = leader_epochs.current
        self.is_newly_led = False
        self.configure(config)
        self.start_offset = max(checkpoint.start_offset, segments[0].base_offset)
        self.end_offset = self.high_watermark = segments[-1].end_offset
        self.size = sum(segment.size for segment in segments)
        self._backing = backing
        self._segments = segments
        self._cleaned = checkpoint.cleaned
        self._saved = checkpoint
        if checkpoint.epochs != self._epochs():
            self._saved = checkpoint._replace(epochs=self._epochs())
        self._problems = Problems() if problems is None else problems
        self._commit = None if commit is None else commit(self)
        self._durable_at: tuple[Segment, int] | None = None
        """Where the high watermark is, if that is not the end: a segment, and a position in it."""
        self._syncing: tuple[tuple[Segment, int], int] | None = None
        """That and the high watermark itself once the sync under way is done."""
        self._producers: Producers | None = None
        """None: not read yet. Most logs never need it."""
        self._is_new = not self.end_offset
        """Whether no producer has appended as long as the producers were not read."""
        self._unknown: KafkaError | None = None
        """The damage that keeps the producers from being read."""
        self._is_transactional = False
        """Whether there was a transactional batch ever, so that the producers tell what is stable.
        """
        self._since_snapshot = 0
        self._saving: asyncio.Task[None] | None = None
        """Reads the producers, for a snapshot."""
        self._listeners: dict[object, Callable[[], None]] = {}
        self._closed: ErrorCode | None = None
        """Error code of every operation since the log was removed or closed."""
        self._compaction: Compaction | None = None
        """The run under way."""
        self._changes = 0
        """How often segments were removed, replaced or cut, or the start offset moved."""

    def __repr__(self) -> str:
        return (
            f"<Log {self.topic_partition} [{self.start_offset}, {self.end_offset}) "
            f"{len(self._segments)} segments>"
        )

    @property
    def can_reopen(self) -> bool:
        """Whether the log ended because the storage failed."""
        return self._closed is ErrorCode.kafka_storage_error

    def ensure_open(self) -> None:
        if self._closed is not None:
            raise self._refusal()

    @property
    def segments(self) -> Sequence[Segment]:
        """Its segments in order, the last one active, for reading only."""
        return self._segments

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._roll_bytes = min(config.segment_bytes, LARGEST)
        self._roll_ms = config.segment_ms
        if config.is_compacted:
            # The active segment is never compacted.
            self._roll_ms = min(config.segment_ms, config.max_compaction_lag_ms)

    # Appending

    def append(
        self,
        batch: Buffer,
        now: Timestamp,
        *,
        verified: Verification | None = None,
        awaited: int | None = None,
    ) -> Appended:
        if self._closed is not None:
            raise self._refusal()
        header = read_header(batch)
        size = header.length + SIZE_OVERHEAD
        if size > self.config.segment_bytes:
            raise self._too_large(size)
        if size > len(batch):
            raise KafkaError(ErrorCode.corrupt_message, f"{len(batch)} of {size} bytes of a batch")
        if header.producer_id >= 0 or header.attributes & TRANSACTIONAL:
            sent = self._known_producers().validate(
                header, verified, awaited, from_first=self.is_newly_led
            )
            if sent is not None:
                return Appended(sent.base_offset, sent.last_offset, sent.timestamp, True)
        self._check_disk()
        if header.attributes & TRANSACTIONAL and not self._is_transactional:
            self._become_transactional()
        base_offset = self.end_offset
        timestamp, append_time = self._write(batch, header, size, now)
        if header.producer_id >= 0:
            self._known_producers().add(header, base_offset, timestamp, now)
        self._stored(size)
        return Appended(base_offset, self.end_offset - 1, append_time)

    def append_encoded(self, content: bytes, count: int, now: Timestamp) -> None:
        if self._closed is not None:
            raise self._refusal()
        size = HEADER_SIZE + len(content)
        if size > self.config.segment_bytes:
            raise self._too_large(size)
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
        segment = self._segments[-1]
        if segment.log.size and self._is_full(segment, size, last_offset, timestamp, now):
            segment = self._roll()
        try:
            segment.append(parts, size, last_offset, timestamp, now)
        except OSError as error:
            self._problems.append_refused(self.topic_partition, error, size)
            raise
        if self._problems.refused_appends:
            self._problems.append_accepted(self.topic_partition, size)
        self.end_offset = last_offset + 1
        self.size += size

    def _stored(self, size: int) -> None:
        """Update sizes and waiters after an append."""
        self._since_snapshot += max(size, _SMALL_BATCH)
        if self._since_snapshot > _SNAPSHOT_BYTES:
            self._save_producers_soon()
        if self._commit is not None:
            self._commit.request()  # readers learn when it is durable
            return
        self.high_watermark = self.end_offset
        if self._listeners:
            self._notify()

    def _is_full(
        self, segment: Segment, size: int, last_offset: int, timestamp: int, now: int
    ) -> bool:
        """Kafka's conditions for a new segment (LogSegment.shouldRoll)."""
        if (
            segment.log.size + size > self._roll_bytes
            or last_offset - segment.base_offset > LARGEST
        ):
            return True
        first = segment.first_timestamp
        return (timestamp - first if first >= 0 else now - segment.created) > self._roll_ms

    def _roll(self) -> Segment:
        """Begin a new segment."""
        sealed = self._segments[-1]
        sealed.seal()
        self._backing.sealed(sealed)
        segment = self._backing.new_segment(self.end_offset, self.config.index_interval_bytes)
        self._segments.append(segment)
        # it would only have made recovery after a crash of the machine shorter
        with contextlib.suppress(OSError):
            self._save()
        return segment

    # Reading

    # Transactions

    @property
    def last_stable_offset(self) -> int:
        if not self._is_transactional:
            return self.high_watermark
        unstable = self._known_producers().first_unstable(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.start_offset), self.high_watermark)

    def ongoing_transaction(self, producer_id: int, producer_epoch: int) -> int | None:
        self.ensure_open()
        return self._known_producers().ongoing(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now: Timestamp, *, tv2: bool
    ) -> Verification:
        self.ensure_open()
        return self._known_producers().verify(
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
        producers = self._known_producers()
        producers.validate_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        self._check_disk()
        if not self._is_transactional:
            self._become_transactional()
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
            self._segments[-1].aborted.add(transaction)
        except OSError as error:
            self.end(ErrorCode.kafka_storage_error)
            self._problems.begin(
                self.topic_partition,
                f"an aborted transaction could not be indexed ({error.strerror or error}); the log "
                "is opened again",
            )
            raise

    def _become_transactional(self) -> None:
        """Have the next start look for open transactions, which hold readers back.

        A log without such a mark is opened without reading its batches. Raises OSError.
        """
        producers = self._known_producers()
        if not producers.is_transactional:
            producers.is_transactional = True
            try:
                self._backing.save_producers(self._snapshot(producers))
            except OSError:
                producers.is_transactional = False
                raise
        self._is_transactional = True

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Records, list[AbortedTransaction]]:
        stable = self.last_stable_offset
        while True:
            records = self._read_up_to(stable, offset, max_bytes, at_least_one)
            if not records or not self._is_transactional:
                return records, []
            is_one = read_header(loaded(records, HEADER_SIZE)).size == len(records)
            aborted = self._aborted_in(offset, len(records), None if is_one else _MOST_ABORTED)
            if aborted is not None:
                return records, aborted
            max_bytes, at_least_one = len(records) // 2, True

    def _aborted_in(
        self, offset: int, size: int, most: int | None
    ) -> list[AbortedTransaction] | None:
        """The aborted transactions of a read of `offset` that gave `size` bytes.

        None if they are more than `most`.
        """
        segments = self._segments[self._at(offset) :]
        indexes = [segment.aborted for segment in segments if segment.aborted.store.size]
        if not indexes:
            return []
        end = self._offset_behind(offset, size)
        found: list[AbortedTransaction] = []
        for each in chain.from_iterable(index.between(offset, end) for index in indexes):
            if each.first_offset < end:
                found.append(each)
                if len(found) - 1 == most:
                    return None
            if each.last_stable_offset >= end:
                break
        return found

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, durable: bool = False
    ) -> bytes:
        limit = self.high_watermark if durable else self.end_offset
        records = self._read_up_to(limit, offset, max_bytes, at_least_one)
        return loaded(records, len(records))

    def fetch(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Records:
        return self._read_up_to(self.high_watermark, offset, max_bytes, at_least_one)

    def _read_up_to(self, limit: int, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        if self._closed is not None:
            raise self._refusal()
        if not self.start_offset <= offset <= self.end_offset:
            raise self._out_of_range(offset)
        if offset == self.end_offset:
            return b""
        try:
            if limit < self.end_offset:
                return self._read_before(limit, offset, max_bytes, at_least_one)
            return self._read(offset, max_bytes, at_least_one)
        except (CorruptLogError, WrongIndexError) as error:
            raise self._found(error) from None

    def _read(self, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        segment = self._segments[-1]
        if offset >= segment.base_offset:
            return segment.read(offset, max_bytes, at_least_one)
        for segment in self._segments[self._at(offset) :]:
            data = segment.read(offset, max_bytes, at_least_one)
            if data or segment.position(offset) < segment.size:
                return data
        raise self._segments[-1].nothing_from(offset)

    def _read_before(self, limit: int, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        """`_read` of what lies before the offset `limit`, which a batch begins with."""
        if offset >= limit:
            return b""
        segment = self._segments[self._at(offset)]
        if segment.end_offset <= limit:
            return self._read(offset, max_bytes, at_least_one)
        known = self._durable_at if limit == self.high_watermark else None
        end = known[1] if known and known[0] is segment else segment.position(limit)
        return segment.read(offset, max_bytes, at_least_one, end)

    @property
    def is_loading(self) -> bool:
        return False

    async def loaded(self) -> None:
        pass

    def offset_behind(self, offset: int, size: int) -> int:
        return self._offset_behind(offset, size)

    def _offset_behind(self, offset: int, size: int) -> int:
        for segment in self._segments[self._at(offset) :]:
            position = segment.position(offset)
            if position < segment.size:
                return segment.offset_behind(position, position + size)
        return self.end_offset

    def _found(self, error: CorruptLogError | WrongIndexError) -> KafkaError:
        if isinstance(error, WrongIndexError):
            with contextlib.suppress(OSError):  # else it is found again
                error.segment.forget_index()
            self.end(ErrorCode.kafka_storage_error)
        self._problems.begin(self.topic_partition, error.message)
        return error

    def _at(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.offset_out_of_range,
            f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]",
        )

    def offset_for_timestamp(self, timestamp: int) -> Lookup:
        return self._while_unchanged(lambda: self._first_since(timestamp))

    def max_timestamp(self) -> Lookup:
        return self._while_unchanged(self._latest_record)

    def _while_unchanged(self, begin: Callable[[], Lookup]) -> Lookup:
        """A lookup that begins again when segments were removed or replaced between its steps."""
        while True:
            self.ensure_open()
            changes, steps = self._changes, begin()
            try:
                step = next(steps)
                while self._changes == changes:
                    result = yield step
                    self.ensure_open()
                    if self._changes == changes:
                        step = steps.send(result)
            except StopIteration as end:
                found: Found = end.value
                return found
            except (CorruptLogError, WrongIndexError) as error:
                raise self._found(error) from None

    def _first_since(self, timestamp: int) -> Lookup:
        for segment in self._segments[self._at(self.start_offset) :]:
            found = yield from segment.offset_for_timestamp(timestamp, self.start_offset)
            if found is not None:
                return found
            yield None
        return None

    def _latest_record(self) -> Lookup:
        best: tuple[int, int] | None = None
        ranked: list[tuple[int, int, Segment]] = []
        for segment in self._segments[self._at(self.start_offset) :]:
            ranked.append((-segment.max_timestamp, segment.base_offset, segment))
            yield None  # the first look at a segment reads its index
        for _, _, segment in sorted(ranked):
            if best is not None and lookup.rank(best) < (
                -segment.max_timestamp,
                segment.base_offset,
            ):
                break
            found = yield from segment.latest_record(self.start_offset)
            best = min(filter(None, (best, found)), key=lookup.rank, default=None)
            yield None
        return best

    # Removing

    def trim(self, before: int) -> None:
        if self._closed is not None:
            raise self._refusal()
        if before > self.end_offset:
            raise self._out_of_range(before)
        if before <= self.start_offset:
            return
        former, self.start_offset = self.start_offset, before
        self._changes += 1
        try:
            self._save()
        except OSError:
            self.start_offset = former
            raise
        if self._commit is not None:
            self._commit.request()
        self._notify()

    def active_producers(self) -> Iterator[ActiveProducer]:
        self.ensure_open()
        return self._known_producers().active()

    async def retain(self, now: Timestamp) -> int:
        if self._closed is not None:
            raise self._refusal()
        if self._producers is not None:
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
        self._changes += 1
        gone = self._segments[:count]
        del self._segments[:count]
        self.size -= sum(segment.size for segment in gone)
        self.start_offset = max(self.start_offset, self._segments[0].base_offset)
        if self._producers:
            self._save_producers()  # the batches that tell of them are gone after a restart
        # Who opens the log before all files are gone finds that it starts behind them.
        with contextlib.suppress(OSError):
            self._save()
        remove = self._backing.discard(gone)
        self._notify()
        if remove is not None:
            await asyncio.to_thread(remove)

    async def compact(self, now: Timestamp) -> bool:
        if self._closed is not None:
            raise self._refusal()
        if len(self._segments) == 1 or self._compaction or not self.config.is_compacted:
            return False
        compaction = await self._plan_compaction(now)
        if compaction is None:
            return False
        compaction.keep = self._known_producers().last_offsets()
        self._compaction = compaction
        try:
            if self._is_transactional:
                compaction.aborted = await self._copied_indexes()
            cleaned = deque(
                await asyncio.to_thread(compaction.run, self._backing.compaction_target)
            )
            compaction.segments = ()
            return await self._install(cleaned)
        except StoppedError:
            return False
        except FileNotFoundError:
            if self._closed is None and set(compaction.segments) <= set(self._segments):
                raise
            return False  # deleted during the run
        finally:
            compaction.stopped = True  # if this was cancelled, the thread goes on
            self._compaction = None

    async def _plan_compaction(self, now: int) -> Compaction | None:
        """A run, for which the producers are read; None if there is none, or the log has changed.

        Raises KafkaError, OSError.
        """
        changes = self._changes
        stable = self.last_stable_offset if self._is_transactional else self.end_offset
        segments = tuple(self._segments)
        try:
            compaction = await in_slices(
                Compaction.plan(segments, self.config, self._cleaned, now, stable)
            )
            if compaction is not None:
                await self._load_producers()
        except (KafkaError, OSError):
            if self._closed is None and self._changes == changes:
                raise
            return None  # segments that it read are gone
        is_due = self._closed is None and self._compaction is None and self.config.is_compacted
        return compaction if is_due and self._changes == changes else None

    async def _copied_indexes(self) -> list[tuple[int, AbortedIndex]]:
        """The base offset of each segment with aborted transactions, and a copy of their index."""
        copies, slices = [], TimeSlices()
        for segment in tuple(self._segments):
            if segment.aborted.store.size:
                copies.append((segment.base_offset, segment.aborted.copy()))
            await slices.give_way()
        return copies

    async def _install(self, cleaned: deque[Cleaned]) -> bool:
        """Swap in the compacted segments, unless the log or their sources are gone meanwhile.

        Each is forgotten then: thousands of segments are not freed at once.
        """
        was_cleaned, slices = bool(cleaned), TimeSlices()
        while cleaned:
            await slices.give_way()
            piece = cleaned.popleft()
            try:
                if self._is_there(piece):
                    await self._swap(piece)
                else:
                    piece.result.close()
            except OSError as error:
                # which of them is on the disk is seen when it is opened again
                self.end(ErrorCode.kafka_storage_error)
                self._problems.begin(
                    self.topic_partition,
                    f"a compaction could not be completed ({error.strerror or error}); the log is "
                    "opened again",
                )
                raise
        if self._closed is None:
            self._save()
            if self._is_transactional:
                self._save_producers()  # it has the indexes of aborted transactions
            if self._commit is not None:
                self._commit.request()
        return was_cleaned

    async def _swap(self, piece: Cleaned) -> None:
        sync = self._backing.begin_swap(piece.sources, piece.result, piece.end)
        if sync is not None:
            await asyncio.to_thread(sync)
            if not self._is_there(piece):
                self._backing.drop_swap(piece.sources, piece.result)
                return
        self._changes += 1
        first = self._at(piece.sources[0].base_offset)
        compacted = self._backing.finish_swap(piece.sources, piece.result)
        self._segments[first : first + len(piece.sources)] = [compacted]
        self.size += piece.result.size - sum(segment.size for segment in piece.sources)
        self._cleaned = max(self._cleaned, piece.end)

    def _is_there(self, piece: Cleaned) -> bool:
        """Whether the log still has what a piece was made from."""
        first = self._at(piece.sources[0].base_offset)
        found = self._segments[first : first + len(piece.sources)]
        return self._closed is None and tuple(found) == piece.sources

    # Producers

    def _known_producers(self) -> Producers:
        if self._producers is None:
            if self._unknown is not None:
                raise fresh(self._unknown)
            if self._is_new:
                self._take(Producers())
            else:
                self._take(self._read_producers(self._stored_producers()))
        assert self._producers is not None
        return self._producers

    def _take(self, producers: Producers) -> None:
        self._producers, self._is_transactional = producers, producers.is_transactional

    def _read_producers(self, stored: Snapshot, progress: Progress = unobserved) -> Producers:
        """The producers by a snapshot and the batches behind it.

        The indexes of aborted transactions are written again where they are not true. Raises
        KafkaError, OSError.
        """
        steps = producer_state.read_on(self._segments[self._at(stored.end_offset) :], stored)
        try:
            while True:
                next(steps)
                progress(0)
        except StopIteration as end:
            producer_state.restore_indexes(stored, end.value)
        return stored.producers

    async def _load_producers(self) -> None:
        """Read the producers, giving way to others; leave it if the log changes meanwhile.

        Raises KafkaError, OSError.
        """
        if self._producers is not None or self._unknown is not None or self._is_new:
            return
        changes, stored = self._changes, self._stored_producers()
        segments = self._segments[self._at(stored.end_offset) :]
        aborted = await in_slices(producer_state.read_on(segments, stored))
        # Whoever appended a batch of a producer meanwhile has read them.
        if self._producers is None and self._closed is None and self._changes == changes:
            producer_state.restore_indexes(stored, aborted)
            self._take(stored.producers)

    def _stored_producers(self) -> Snapshot:
        return producer_state.stored(self._backing, self._segments, self.end_offset)

    def restore_producers(self, progress: Progress, *, crashed: bool = False) -> None:
        """Read the producers if a transaction may be open, or if the snapshot is old or lost.

        An open transaction holds readers back. `crashed`: a power loss may have taken the snapshot,
        because it is not synced. A new snapshot is best effort, for the first append, which reads
        what follows.
        """
        try:
            stored = self._stored_producers()
            is_old = self._is_much_behind(stored.end_offset)
            if not (crashed or is_old or stored.is_broken or stored.producers.is_transactional):
                return
            producers = self._read_producers(stored, progress)
        except OSError:
            self._is_transactional = True  # as far as is known: they are read when needed
            return
        except KafkaError as error:
            self._is_transactional, self._unknown = True, fresh(error)
            return
        if is_old or stored.is_broken:
            with contextlib.suppress(OSError):
                self._backing.save_producers(self._snapshot(producers))
        if producers.is_transactional:
            self._take(producers)

    def _is_much_behind(self, offset: int) -> bool:
        """Whether the batches from `offset` on take long to read. Raises KafkaError, OSError."""
        segments, much = self._segments[self._at(offset) :], _SNAPSHOT_BYTES // 2
        size = sum(segment.size for segment in segments)
        return size > much and size - segments[0].position(offset) > much

    def _save_producers(self) -> None:
        """Best effort: without it more headers are read the next time."""
        self._since_snapshot = 0
        with contextlib.suppress(OSError, KafkaError):
            self._backing.save_producers(self._snapshot(self._known_producers()))

    def _save_producers_soon(self) -> None:
        """Save the producers, in the background if they have to be read from the log first."""
        if self._producers is None and not self._is_new:
            with contextlib.suppress(RuntimeError):  # no loop runs: nobody waits for a turn of it
                self._saving = asyncio.get_running_loop().create_task(self._load_and_save())
                self._since_snapshot = 0
                return
        self._save_producers()

    async def _load_and_save(self) -> None:
        with contextlib.suppress(KafkaError, OSError):  # else with the next snapshot
            await self._load_producers()
        if self._producers is not None and self._closed is None:
            self._save_producers()

    def _discard_snapshot(self) -> None:
        """It may have records that are gone, and other ones get their offsets."""
        with contextlib.suppress(OSError):  # else until the next one is saved
            if self._backing.load_producers():
                self._backing.save_producers(DISCARDED)

    def producers_for(self, indexes: Mapping[int, IndexState]) -> bytearray:
        """A snapshot of the producers for a log whose segments have these indexes of aborted
        transactions, by base offset. Raises KafkaError, OSError.
        """
        self.ensure_open()
        return self._known_producers().dump(self.end_offset, indexes)

    def _snapshot(self, producers: Producers) -> bytearray:
        """Raises OSError."""
        indexes = producer_state.indexes(self._segments) if producers.is_transactional else {}
        return producers.dump(self.end_offset, indexes)

    # Waiting

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = callback

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def _notify(self) -> None:
        for callback in tuple(self._listeners.values()):
            callback()

    async def wait_beyond(self, offset: int) -> None:
        more = asyncio.Event()
        stop = self.on_append(more.set)
        try:
            while self.high_watermark <= offset:
                if self._closed is not None:
                    raise self._refusal()
                more.clear()
                await more.wait()
        finally:
            stop()

    # Durability and the end

    async def durable(self) -> None:
        if self._commit is not None and self._closed is None:
            await self._commit.wait()

    def begin_sync(self) -> Callable[[], None]:
        self._syncing = _end_of(self._segments[-1]), self.end_offset
        paths, save = self.unsynced(), self._backing.pending_save()

        def sync() -> None:
            sync_all(paths)
            save()  # what the checkpoint says is on the disk is there by now

        return sync

    def synced(self) -> None:
        if self._syncing is not None:  # else the log was closed meanwhile
            self._durable_at, self.high_watermark = self._syncing
            self._notify()

    def owner_sync_failed(self, error: OSError, durable_end: int) -> None:
        self.high_watermark = durable_end
        self.sync_failed(error)

    def sync_failed(self, error: OSError) -> None:
        self._backing.sync_failed(error)
        if self._closed is None and self.end_offset > self.high_watermark:
            with contextlib.suppress(OSError):  # else before the disk is tried again
                self._take_back()

    def retry_sync(self) -> Callable[[], None]:
        if self._closed is None and self.end_offset > self.high_watermark:
            self._take_back()
        return self._backing.rewrite_end(self._segments[-1])

    def sync_resumed(self) -> None:
        self._backing.sync_resumed()

    def _take_back(self) -> None:
        """Remove records that are not durable: their appends failed. Raises OSError."""
        self._changes += 1
        end_offset = self.high_watermark
        while len(self._segments) > 1 and self._segments[-1].base_offset >= end_offset:
            if (remove := self._backing.discard(self._segments[-1:])) is not None:
                remove()
            del self._segments[-1]
        last = self._segments[-1]
        last.take_back(end_offset)
        self._durable_at = _end_of(last)
        self.end_offset = end_offset
        self.size = sum(segment.size for segment in self._segments)
        self._producers, self._is_new = None, False
        self._discard_snapshot()
        self._backing.taken_back(end_offset)
        self._notify()

    def unsynced(self) -> list[str]:
        """The paths of files written since the last call."""
        if not self.end_offset:
            return []
        paths: list[str] = []
        for segment in reversed(self._segments):
            if segment.size and not segment.unsynced:
                break
            if (path := segment.log.file()) is not None:
                paths.append(path)
            segment.unsynced = False
        # A file gets its name with its first append, so that name is still to be synced then.
        has_file = self._segments[-1].log.file() is not None
        return paths + self._backing.unsynced_names(again=not has_file)

    def sync(self, names: Iterable[str]) -> None:
        self._backing.sync(names)

    @property
    def recovery_point(self) -> int:
        """The segments below this offset are durable, and no crash makes them be checked again."""
        return self._backing.recovery_point()

    @property
    def checkpoint(self) -> Checkpoint:
        """State that its batches do not tell: it changes when some of them are removed."""
        return Checkpoint(self.start_offset, self.recovery_point, self._cleaned)

    def _epochs(self) -> tuple[EpochEntry, ...]:
        if not self.leader_epochs.current:
            return ()
        return self.leader_epochs.entries(self.start_offset)

    def _save(self) -> None:
        checkpoint = self.checkpoint._replace(epochs=self._epochs())
        if checkpoint != self._saved:
            self._backing.save(checkpoint)
            self._saved = checkpoint

    def settle(self) -> Callable[[], None]:
        """Have the checkpoint say that all of the log is on the disk, which it is.

        Returns what stores it, to be called in a thread. Raises OSError.
        """
        if self._closed is not None:
            return _nothing
        self._backing.all_synced(self.high_watermark)
        self._save()
        return self._backing.pending_save()

    def close(self) -> None:
        if self._closed is not None:
            return
        try:
            if self._producers is not None:
                self._save_producers()
            self.sync(self.unsynced())
            self._save()
            self._backing.pending_save()()
            self._check_disk()
        finally:
            self.end(ErrorCode.not_leader_or_follower)

    def _check_disk(self) -> None:
        if self._commit is not None and self._commit.failure is not None:
            raise OSError(self._commit.failure.errno, "the disk refuses what is written")

    def end(self, code: ErrorCode) -> None:
        """Close the files, raise `code` from every operation from now on, and wake the waiters."""
        self._closed = code
        self._durable_at = self._syncing = None
        if self._commit is not None:
            self._commit.close()
        if self._compaction is not None:
            self._compaction.stopped = True
        if self._saving is not None:
            self._saving.cancel()
        for segment in self._segments:
            segment.close()
        self._notify()

    def _too_large(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.record_list_too_large, (f"{size} bytes do not fit into a segment")
        )

    def _refusal(self) -> KafkaError:
        assert self._closed is not None
        return KafkaError(self._closed, f"the log of {self.topic_partition} is closed")


def _nothing() -> None:
    pass


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _end_of(segment: Segment) -> tuple[Segment, int]:
    return segment, segment.size
