"""`Consumer` for programs without an event loop.

    with Consumer(ClientConfig(bootstrap="localhost:9092"), group_id="billing") as consumer:
        consumer.assign_topics("orders")
        for record in consumer:
            print(record.value)
            consumer.commit()

Used by one thread at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Self, TypedDict, TypeVar, Unpack, cast

from kohort.client.background_loop import background_loop, run_here
from kohort.client.cluster import Isolation, Offset
from kohort.client.config import ClientConfig
from kohort.client.consumer import Consumer as AsyncConsumer
from kohort.client.fetch import Batch, OutOfRange, deserialize
from kohort.client.metrics import ConsumerMetrics
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.record import K, Record, V
from kohort.client.serialization import Deserializer, deserializers
from kohort.types import TopicPartition

T = TypeVar("T")

_WAIT_MS: Final = 60_000


class ConsumerOptions(TypedDict, total=False):
    """The options of `kohort.client.Consumer`."""

    group_id: str | None
    auto_offset_reset: OutOfRange
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Isolation
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    client_rack: str


class Consumer(Generic[K, V]):
    """A reader of chosen partitions; its methods are those of `kohort.client.Consumer`.

    Records are deserialized and handed out in the caller's thread, batch by batch, without a change
    of threads for each.
    """

    def __init__(
        self,
        config: ClientConfig,
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
        """The batch whose records are handed out."""
        self._rest: Iterator[Record[K, V]] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all requests; with `enable_auto_commit`, commit first. Idempotent."""
        self._leave_batch()
        self._loop.run(self._consumer.close())

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
        """Continue behind the last records, of all partitions if none is named."""
        self._leave_batch()
        self._loop.run(self._consumer.seek_to_end(*tps))

    def pause(self, *tps: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. Raises NotAssignedError."""
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
        """The offset behind the last record of each partition. Raises KohortError."""
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
        """Commit these offsets, or all that was handed out, also the last record or batch."""
        self._loop.run(self._consumer.commit(offsets))

    # Records

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self

    def __next__(self) -> Record[K, V]:
        """The next record. Raises the error of a partition, and goes on after it."""
        while True:
            if self._batch is not None:
                record = next(self._rest, None)
                end = self._batch.next_offset if record is None else record.offset + 1
                self._use(self._batch, end)
                if record is not None:
                    return record
            self._batch, batch = None, self._take(_WAIT_MS)
            if batch is not None:
                self._batch, self._rest = batch, iter(batch)

    def next_batch(self, *, max_wait_ms: float) -> Batch[K, V] | None:
        """The next batch; None if none arrived in time. Raises as `__next__`."""
        self._leave_batch()
        batch = self._take(max_wait_ms)
        if batch is not None:
            self._use(batch, batch.next_offset)
        return batch

    def _take(self, max_wait_ms: float) -> Batch[K, V] | None:
        """The next batch, of which nothing counts as used: deserializing may be interrupted."""
        taken = self._loop.run(self._consumer.next_batch(max_wait_ms=max_wait_ms))
        if taken is not None:
            self._consumer.used(taken, taken.first_offset)
            if self._deserializers is not None:
                run_here(deserialize(taken, self._deserializers, self._loop.wait))
        return cast("Batch[K, V] | None", taken)

    def _use(self, batch: Batch[K, V], offset: int) -> None:
        self._consumer.used(cast("Batch", batch), offset)

    def _leave_batch(self) -> None:
        """What is left of the batch comes again."""
        self._batch, self._rest = None, iter(())

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._loop.run(call())
