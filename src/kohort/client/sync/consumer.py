"""`Consumer` for programs without an event loop.

    with Consumer(bootstrap="localhost:9092", group_id="billing") as consumer:
        consumer.assign_topics("orders")
        for record in consumer:
            print(record.value)
            consumer.commit()

Used by one thread at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Self, TypeVar, Unpack, cast
from uuid import UUID

from kohort.client.cluster import Offset
from kohort.client.concurrency import background_loop, run_here
from kohort.client.config import ClientConfig, ConsumerConfig, ConsumerOptions
from kohort.client.consumer import Consumer as AsyncConsumer
from kohort.client.fetch import Batch, deserialize
from kohort.client.group_metadata import GroupMetadata, Offsets
from kohort.client.method_names import CONSUMER, MethodHints
from kohort.client.metrics import ConsumerMetrics
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.record import K, Record, V
from kohort.client.serialization import Deserializer, deserializers
from kohort.types import TopicPartition

T = TypeVar("T")

_WAIT_MS: Final = 60_000


@shows_options(ConsumerConfig, ClientConfig)
@checks_arguments
class Consumer(MethodHints, Generic[K, V]):
    """A reader of chosen partitions; its methods are those of `kohort.client.Consumer`.

    Records are deserialized and returned in the caller's thread, batch by batch, without a change
    of threads for each record.
    """

    _OTHER_NAMES = CONSUMER

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """The options are those of `kohort.client.Consumer`. Raises ConfigError."""
        self._loop = background_loop()
        self._consumer = AsyncConsumer(config, **options)
        self._deserializers = deserializers(key_deserializer, value_deserializer)
        self._batch: Batch[K, V] | None = None
        """The batch whose records are being returned."""
        self._remaining: Iterator[Record[K, V]] = iter(())
        self._position = 0
        """Offset after the used records of the last batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all requests; with `enable_auto_commit`, commit first. Idempotent.

        An interrupt is raised when all is closed; a second one at once.
        """
        self._leave_batch()
        self._loop.run_to_its_end(self._consumer.close())

    def metrics(self) -> ConsumerMetrics:
        """Counters since the start, and gauges of this moment; from any thread."""
        return self._consumer.metrics()

    # Assignment and positions

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return self._consumer.assignment

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION and others."""
        return self._loop.run(self._consumer.partitions_for(topic))

    def assign_topics(self, *topics: str) -> None:
        """`assign` all partitions that these topics have now."""
        self._leave_batch()
        self._loop.run(self._consumer.assign_topics(*topics))

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions; a mapping gives the offset to start at."""
        self._leave_batch()
        self._loop.run(self._consumer.assign(partitions))

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record that is handed out. Raises NotAssignedError."""
        return self._call(lambda: self._consumer.position(tp))

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at another offset. Raises NotAssignedError, ValueError."""
        self._leave_batch()
        self._call(lambda: self._consumer.seek(tp, offset))

    def seek_to_beginning(self, *tps: TopicPartition) -> None:
        """Continue at the first records, of all partitions if none is named."""
        self._leave_batch()
        self._loop.run(self._consumer.seek_to_beginning(*tps))

    def seek_to_end(self, *tps: TopicPartition) -> None:
        """Continue at the end of these partitions, by default of all."""
        self._leave_batch()
        self._loop.run(self._consumer.seek_to_end(*tps))

    def pause(self, *tps: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Raises NotAssignedError."""
        self._leave_batch()
        self._call(lambda: self._consumer.pause(*tps))

    def resume(self, *tps: TopicPartition) -> None:
        """Hand out these again. Raises NotAssignedError."""
        self._call(lambda: self._consumer.resume(*tps))

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._consumer.paused()

    def lag(self, tp: TopicPartition) -> int | None:
        """Offsets from `position` to the end as of the last fetch; None before the first."""
        return self._call(lambda: self._consumer.lag(tp))

    # Offsets by time, and commits

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises KohortError."""
        return self._loop.run(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offset of each partition. Raises KohortError."""
        return self._loop.run(self._consumer.end_offsets(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset | None]:
        """The first record of each partition since a time (ms); None if there is none so late."""
        return self._loop.run(self._consumer.offsets_for_times(times))

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition. Raises KohortError, ConfigError without group."""
        return self._loop.run(self._consumer.committed(partitions))

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit these offsets, or all that was handed out, also the last record or batch.

        An interrupt is raised when the outcome is known, within `default_api_timeout_ms`, with the
        error of the commit as its cause; a second one at once.
        """
        self._loop.run_uncancelled(self._consumer.commit(offsets))

    def to_commit(
        self, offsets: Offsets
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """For `Transaction.commit_offsets`, as of `kohort.client.Consumer`."""
        return self._consumer.to_commit(offsets)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, UUID]:
        """For `Transaction.commit_offsets`, as of `kohort.client.Consumer`."""
        return self._consumer.topic_ids(partitions)

    # Records

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self

    def __next__(self) -> Record[K, V]:
        """The next record. Raises errors of partitions; the next call continues."""
        while True:
            record = self._next_record()
            if record is not None:
                return record
            self._fetch_records(None)

    def read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[Record[K, V]]:
        """The records before these offsets, of these partitions; others wait.

        As `kohort.client.Consumer.read_to`: it also ends where the last offsets are transaction
        markers, aborted or compacted. Raises NotAssignedError, ValueError, and as `__next__`.
        """
        self._call(lambda: self._consumer.read_to(ends))  # validates
        return _RecordsBefore(self._next_before, dict(ends))

    def _next_before(self, ends: Mapping[TopicPartition, int]) -> Record[K, V] | None:
        """The next record before these offsets; None once all partitions are there."""
        while True:
            if self._batch is not None:
                end = ends.get(self._batch.topic_partition, 0)
                record = self._next_record(end)
                if record is not None:
                    return record
            if not self._call(lambda: self._consumer.is_before(ends)):
                return None
            self._fetch_records(ends)

    def _next_record(self, end: int | None = None) -> Record[K, V] | None:
        """The next record of the batch, if it is before `end`; else the batch is left."""
        batch = self._batch
        if batch is None:
            return None
        record = next(self._remaining, None)
        if record is not None and (end is None or record.offset < end):
            self._use(batch, record.offset + 1)
            return record
        self._leave_batch()
        if record is None:
            self._use(batch, batch.next_offset)
        elif end is not None and end > self._position:
            self._use(batch, end)
        return None

    def _fetch_records(self, before: Mapping[TopicPartition, int] | None) -> None:
        self._batch, batch = None, self._fetch_batch(_WAIT_MS, before)
        if batch is not None:
            self._batch, self._remaining = batch, iter(batch)

    def next_batch(
        self, *, max_wait_ms: float, before: Mapping[TopicPartition, int] | None = None
    ) -> Batch[K, V] | None:
        """The next batch; None if none arrived in time. `before` as of `kohort.client.Consumer`.

        Raises as `__next__`.
        """
        self._leave_batch()
        batch = self._fetch_batch(max_wait_ms, before)
        if batch is not None:
            self._use(batch, batch.next_offset)
        return batch

    def _fetch_batch(
        self, max_wait_ms: float, before: Mapping[TopicPartition, int] | None = None
    ) -> Batch[K, V] | None:
        """The next batch, with no record counted as used: deserialization may be interrupted."""
        batch = self._loop.run_to_its_end(self._fetch_unused(max_wait_ms, before))
        if batch is not None:
            self._position = batch.first_offset
            if self._deserializers is not None:
                run_here(deserialize(batch, self._deserializers, self._loop.wait))
        return cast("Batch[K, V] | None", batch)

    async def _fetch_unused(
        self, max_wait_ms: float, before: Mapping[TopicPartition, int] | None
    ) -> Batch | None:
        """Runs on the loop, so that an interrupt loses nothing: the batch is returned again."""
        batch = await self._consumer.next_batch(max_wait_ms=max_wait_ms, before=before)
        if batch is not None:
            self._consumer.used(batch, batch.first_offset)
        return batch

    def _use(self, batch: Batch[K, V], offset: int) -> None:
        self._position = offset
        self._consumer.used(cast("Batch", batch), offset)

    def _leave_batch(self) -> None:
        """Return the remaining records of the batch again."""
        self._batch, self._remaining = None, iter(())

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._loop.run(call())


class _RecordsBefore(Generic[K, V]):
    """`Consumer.read_to`."""

    def __init__(
        self,
        next_record: Callable[[Mapping[TopicPartition, int]], Record[K, V] | None],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        self._next_record = next_record
        self._ends = ends

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self

    def __next__(self) -> Record[K, V]:
        record = self._next_record(self._ends)
        if record is None:
            raise StopIteration
        return record
