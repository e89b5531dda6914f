"""Sends records: batched by partition, in order, and by default exactly once (KIP-98).

    async with Producer(bootstrap="localhost:9092", compression="zstd") as producer:
        metadata = await producer.send_and_wait("orders", b"value")        # in the log
        delivery = await producer.send("orders", b"value", key=b"key")     # queued
        metadata = await delivery                                          # in the log

`send` waits only when the buffer is full or the topic is unknown. Its Delivery can be awaited for
the record's RecordMetadata. Leaving the block sends all queued records. `flush`, and leaving the
block, raise the errors of all records whose delivery was not awaited.
"""

import asyncio
import itertools
import logging
import time
from asyncio import get_running_loop
from typing import Any, Final, Generic, Self, Unpack

from kohort.client.cluster import Cluster, open_cluster
from kohort.client.concurrency import own_loop, to_its_end
from kohort.client.config import ClientConfig, ProducerConfig, ProducerOptions, split_options
from kohort.client.method_names import PRODUCER, MethodHints
from kohort.client.metrics import ProducerMetrics
from kohort.client.produce.batch import ProduceBatch
from kohort.client.produce.buffer_pool import BufferPool
from kohort.client.produce.counters import ProduceCounters
from kohort.client.produce.delivery import Delivery, RecordMetadata
from kohort.client.produce.identity import ProducerIdentity
from kohort.client.produce.losses import Losses
from kohort.client.produce.partition import ProducePartition
from kohort.client.produce.partitioner import PartitionChooser
from kohort.client.produce.producer_ids import ProducerIds
from kohort.client.produce.record_arguments import (
    Headers,
    RecordOptions,
    as_bytes,
    as_headers,
    as_partition,
    as_timestamp,
)
from kohort.client.produce.sender import Sender
from kohort.client.produce.topic_lookup import TopicLookup
from kohort.client.produce.transaction import Transaction
from kohort.client.produce.transactions import Transactions
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.serialization import K_in, Serializer, V_in, serializers
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.compression import Buffer, compress
from kohort.types import TopicPartition

__all__ = ["Delivery", "Producer", "RecordMetadata"]

log: Final = logging.getLogger("kohort.client.producer")

_RECORD_OVERHEAD_BYTES: Final = 32
"""Bytes of a record besides key, value and headers; an upper limit for all but the longest."""
_numbers: Final = itertools.count(1)


@shows_options(ProducerConfig, ClientConfig)
@checks_arguments
class Producer(MethodHints, Generic[K_in, V_in]):
    """A producer, used from the event loop that it first sends from.

    A Cluster that is passed in stays open; with a ClientConfig, or its options, the producer opens
    its own.
    """

    _OTHER_NAMES = PRODUCER

    def __init__(
        self,
        cluster: ClientConfig | Cluster | None = None,
        *,
        key_serializer: Serializer[K_in] | None = None,
        value_serializer: Serializer[V_in] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """The options are the fields of ProducerConfig and ClientConfig. Raises ConfigError.

        Serializers are those of `kohort.client.serialization`.
        """
        own_options, connection_options = split_options(options, ProducerConfig)
        self.config = ProducerConfig(**own_options)
        self.cluster = open_cluster(cluster, connection_options)
        self._owns_cluster = self.cluster is not cluster
        self._chooser = PartitionChooser(self.config.partitioner, self.config.batch_size)
        self._topics = TopicLookup(self.cluster, self.config.max_block_ms)
        self._serializers = serializers(key_serializer, value_serializer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._purpose = f"produce {next(_numbers)}"
        further = (
            f"{self._purpose}, {index}" for index in range(1, self.config.connections_per_broker)
        )
        self._purposes = (self._purpose, *further)
        self._transactions = (
            None
            if self.config.transactional_id is None
            else Transactions(
                self.cluster,
                self.config,
                self.config.transactional_id,
                self._purpose,
                self._await_deliveries,
            )
        )
        self._ids: ProducerIdentity = self._transactions or ProducerIds(
            self.cluster, enabled=self.config.is_idempotent
        )
        self._partitions: dict[TopicPartition, ProducePartition] = {}
        self._buffer_pool = BufferPool(self.config.buffer_memory, self.config.max_block_ms / 1000)
        self._largest = min(self.config.max_request_size, self.config.buffer_memory)
        self._owes_a_turn = False
        """Whether a batch was filled since the sender could last run."""
        self._losses = Losses()
        self._counters = ProduceCounters()
        self._sender: Sender | None = None
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """A transactional producer fences others with its `transactional_id` here.

        Raises as `Transaction.__aenter__` then.
        """
        self._take_loop()
        if self._transactions is not None:
            try:
                await self._transactions.initialize()
            except BaseException:
                await self._end()
                raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._closing is None:
            self._take_loop()
        try:
            await self._finish()
        except Exception:
            if kind is None:
                raise  # else the exception in flight is the cause
            log.exception("records were lost when the producer was closed by another exception")
        finally:
            await self._end()
            if (dropped := self._losses.pop_error()) is not None:
                log.error("%s", dropped, exc_info=dropped)

    def __repr__(self) -> str:
        return f"<Producer {len(self._unsettled())} batches unsettled, {self.buffered_bytes} bytes>"

    @property
    def buffered_bytes(self) -> int:
        """Bytes of all records that are not settled yet."""
        return self._buffer_pool.used

    def metrics(self) -> ProducerMetrics:
        """Counters since the start, and gauges of this moment; from any thread."""
        unsettled = self._unsettled()
        return self._counters.snapshot(
            client_id=self.cluster.config.client_id,
            is_closed=self._closing is not None,
            queued_records=sum(batch.count for batch in unsettled),
            queued_bytes=self._buffer_pool.used,
            buffer_bytes=self._buffer_pool.limit,
            waiting_sends=self._buffer_pool.waiting,
            in_flight_batches=sum(
                len(partition.in_flight) for partition in tuple(self._partitions.values())
            ),
            transactions=None if self._transactions is None else self._transactions.metrics(),
            connections=self.cluster.metrics().connections,
        )

    async def send(
        self,
        topic: str,
        value: V_in | None,
        *,
        key: K_in | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        serialized: bool = False,
    ) -> Delivery:
        """Queue a record (`timestamp` in ms, default: now); await the delivery for its outcome.

        Arguments may change after the return. A cancelled call has queued nothing. With
        `serialized`, key and value are bytes that bypass the serializers, such as those of a dead
        letter. Raises SerializationError, TypeError and ValueError for invalid arguments,
        KafkaError (MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED…), GaveUpError if there is no
        metadata of the topic or partition within `max_block_ms`, BufferFullError.
        Awaiting the delivery raises KafkaError with the broker's code, or DeliveryTimeoutError;
        both name the partition.
        """
        if self._loop is not get_running_loop():
            self._take_loop()
        if self._owes_a_turn:
            self._owes_a_turn = False
            await asyncio.sleep(0)  # let the sender run even if the caller never waits
        value_bytes: Any = value
        key_bytes: Any = key
        if self._serializers is not None and not serialized:
            headers = header_list = list(as_headers(headers))
            key_bytes, value_bytes = await self._serializers.serialize(
                topic, key_bytes, value_bytes, header_list
            )
        if type(value_bytes) is not bytes and value_bytes is not None:
            value_bytes = as_bytes("value", value_bytes)
        if type(key_bytes) is not bytes and key_bytes is not None:
            key_bytes = as_bytes("key", key_bytes)
        size = _RECORD_OVERHEAD_BYTES + len(key_bytes or b"") + len(value_bytes or b"")
        header_pairs = as_headers(headers) if headers else ()
        if header_pairs:
            size += sum(
                len(header) * 4 + len(content or b"") + 10 for header, content in header_pairs
            )
        timestamp_ms = time.time_ns() // 1_000_000 if timestamp is None else as_timestamp(timestamp)
        if type(partition) is not int and partition is not None:
            partition = as_partition(partition)
        metadata = self.cluster.cached_topic(topic) or await self._topics.find(topic)
        if partition is None:
            partition = self._chooser.choose(metadata, key_bytes, size)
        elif metadata.partition(partition) is None:
            await self._topics.find(topic, as_partition(partition))
        tp = TopicPartition(topic, partition)
        if size > self._largest:
            raise KafkaError(
                ErrorCode.message_too_large,
                f"{tp}: {size} bytes; see max_request_size, buffer_memory",
            )
        if not self._buffer_pool.has(size):
            self._wake_sender()
            await self._buffer_pool.wait_for(tp, size)
        batch, is_new = self._open_batch(tp, size, timestamp_ms)
        before = batch.size
        delivery = batch.append(key_bytes, value_bytes, header_pairs, timestamp_ms)
        self._buffer_pool.reserve(batch.size - before)
        if batch.size >= self.config.batch_size:
            batch.close()
            self._wake_sender()
            self._owes_a_turn = True
        elif is_new:
            self._wake_sender()
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V_in | None,
        **options: Unpack[RecordOptions[K_in]],
    ) -> RecordMetadata:
        """Send a record, and return when it is in the log.

        It lingers with others for `linger_ms`: await many at once, or `send`, where speed counts. A
        call that is cancelled does not take the record back: use `send`, and keep its delivery,
        where the outcome matters then. Raises as `send`, and as its delivery.
        """
        delivery = await self.send(topic, value, **options)
        return await delivery

    async def send_encoded(
        self,
        tp: TopicPartition,
        payload: Buffer,
        count: int,
        *,
        base_timestamp: int,
        max_timestamp: int,
        uncompressed_size: int | None = None,
    ) -> Delivery:
        """Queue a whole batch of `count` records that the caller has encoded.

        The payload is in format v2, with deltas from 0 and from `base_timestamp`. It is
        uncompressed, or with `uncompressed_size` (bytes) it is compressed as this producer does. It
        may change after the return, except for a read-only one of `uncompressed_size`: that is not
        copied, and must stay until its delivery. The delivery is that of the first record. Raises
        as `send`.
        """
        size = len(payload) if uncompressed_size is None else uncompressed_size
        if self._loop is not get_running_loop():
            self._take_loop()
        topic = self.cluster.cached_topic(tp.topic)
        if topic is None or topic.partition(tp.partition) is None:
            await self._topics.find(tp.topic, tp.partition)
        if self._partition(tp).waiting:  # sent in an earlier request than this batch
            await asyncio.sleep(0)
        if not self._buffer_pool.has(size):
            self._wake_sender()
            await self._buffer_pool.wait_for(tp, size)
        queue = self._partition(tp)
        if queue.open is not None:
            queue.open.close()
        compressed = (
            compress(self.config.codec, payload, self.config.compression_level)
            if uncompressed_size is None
            else _kept(payload)
        )
        batch = self._new_batch(queue, base_timestamp)
        delivery = batch.append_encoded(compressed, size, count, max_timestamp)
        self._buffer_pool.reserve(size)
        self._wake_sender()
        return delivery

    async def flush(self) -> None:
        """Send all records that are queued now, and wait until they are settled.

        Raises UndeliveredError with the errors of records whose delivery was not awaited; its text
        counts them by partition.
        """
        await self._await_queued()
        self._losses.raise_all()

    def transaction(self, *, wait: bool = False) -> Transaction:
        """A transaction, as a scope: `async with producer.transaction() as transaction`.

        Records that are sent meanwhile belong to it. One is open at a time; `wait` waits for its
        end. Raises KohortError for a producer without `transactional_id`.
        """
        if self._transactions is None:
            raise KohortError(
                "this producer has no transactions: give it a transactional_id, which other "
                "producers must not have"
            )
        if self._loop is not get_running_loop():
            self._take_loop()
        return Transaction(self._transactions, wait=wait)

    async def _await_deliveries(self) -> None:
        """Wait until no record waits or is in flight, including records sent meanwhile."""
        while self._unsettled():
            await self._await_queued()
        self._losses.clear()  # the end of the transaction raises them

    async def _await_queued(self) -> None:
        unsettled = self._unsettled()
        for batch in unsettled:
            batch.close()
        self._wake_sender()
        for batch in unsettled:
            await batch.outcome.settled()

    async def _finish(self) -> None:
        if self._transactions is not None and self._transactions.on_close is not None:
            await self._transactions.on_close()
        await self.flush()

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Send queued records, for `timeout_ms` at most (default: no limit), and end. Idempotent.

        A transaction that is open is aborted, unless `timeout_ms` is 0: then its timeout ends it.
        Raises as `flush`, also for records that were dropped because the time was over.
        """
        if self._closing is None:
            self._take_loop()
        try:
            if timeout_ms != 0:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._finish()
        except TimeoutError:
            pass
        finally:
            await self._end()
        self._losses.raise_all()

    async def _end(self) -> None:
        """Drop unsettled records, also if the caller is cancelled. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"{self._purpose} closes")
        await to_its_end(self._closing)

    async def _close(self) -> None:
        if self._sender is not None:
            await self._sender.close()
        for purpose in self._purposes:
            await self.cluster.release(purpose)
        if self._owns_cluster:
            await self.cluster.close()

    def _take_loop(self) -> None:
        self._loop = own_loop(self._loop, "producer")

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, which is made if the brokers make topics by themselves.

        Raises as `send`.
        """
        if self._loop is not get_running_loop():
            self._take_loop()
        metadata = self.cluster.cached_topic(topic) or await self._topics.find(topic)
        return [TopicPartition(topic, partition.index) for partition in metadata.partitions]

    # Batches

    def _partition(self, tp: TopicPartition) -> ProducePartition:
        """The queue of a partition. Raises KohortError after `close`, or if the producer failed."""
        if self._closing is not None:
            raise KohortError(f"{tp}: the producer is closed, and sends no more records")
        if self._sender is not None and (failure := self._sender.failure) is not None:
            raise KohortError(f"{tp}: the producer failed: {failure!r}") from failure
        if self._transactions is not None:
            self._transactions.validate_sends()
        partition = self._partitions.get(tp)
        if partition is None:
            partition = self._partitions[tp] = ProducePartition(
                tp, self.config.in_flight_per_partition
            )
        return partition

    def _open_batch(self, tp: TopicPartition, size: int, stamp: int) -> tuple[ProduceBatch, bool]:
        """The batch for a record of `size` bytes, and whether it is a new one."""
        partition = self._partition(tp)
        batch = partition.open
        if batch is not None and batch.size + size <= max(self.config.batch_size, size):
            return batch, False
        if batch is not None:
            batch.close()
        return self._new_batch(partition, stamp), True

    def _new_batch(self, partition: ProducePartition, stamp: int) -> ProduceBatch:
        now = asyncio.get_running_loop().time()
        batch = ProduceBatch(
            partition.tp,
            partition.next_number(),
            self.config.codec,
            now,
            stamp,
            self.config.compression_level,
            is_transactional=self._transactions is not None,
        )
        partition.waiting.append(batch)
        self._buffer_pool.reserve(batch.size)
        if self._sender is None:
            self._sender = Sender(
                self.cluster,
                self.config,
                self._ids,
                self._purposes,
                self._counters,
                self._buffer_pool,
                self._on_batch_settled,
            )
        self._sender.add(partition)
        return batch

    def _unsettled(self) -> list[ProduceBatch]:
        return [
            batch for partition in tuple(self._partitions.values()) for batch in partition.unsettled
        ]

    def _wake_sender(self) -> None:
        if self._sender is not None:
            self._sender.wake()

    def _on_batch_settled(self, batch: ProduceBatch) -> None:
        self._buffer_pool.give_back(batch.size)
        if batch.halves is not None:
            self._buffer_pool.reserve(sum(half.size for half in batch.halves))
        elif batch.outcome.done.exception() is not None:
            self._losses.add(batch)


def _kept(payload: Buffer) -> Buffer:
    """The payload, or a copy if others may write to it."""
    return payload if memoryview(payload).readonly else bytes(payload)
