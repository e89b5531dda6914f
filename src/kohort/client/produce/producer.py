"""Sends records: batched by partition, in order, and by default exactly once (KIP-98).

    async with Producer(ClientConfig(bootstrap="localhost:9092"), compression="zstd") as producer:
        delivery = await producer.send("orders", b"value", key=b"key")     # queued
        metadata = await delivery                                          # in the log

`send` waits only when the buffer is full or the topic is unknown. Its Delivery can be awaited for
the record's RecordMetadata. Leaving the block sends all queued records. `flush`, and leaving the
block, raise the first error of a delivery that was not awaited.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from typing import Final, Self

from kohort.client.backoff import retrying
from kohort.client.cluster import NO_LEADER, Cluster, TopicMetadata
from kohort.client.config import ClientConfig
from kohort.client.errors import BufferFullError
from kohort.client.produce.batch import Delivery, ProduceBatch, RecordMetadata
from kohort.client.produce.buffer_pool import BufferPool
from kohort.client.produce.partition import ProducePartition
from kohort.client.produce.partitioner import Partitioner, Sticky, murmur2_partitioner
from kohort.client.produce.producer_ids import ProducerIds
from kohort.client.produce.sender import Sender
from kohort.client.producer_config import Acks, ProducerConfig
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.compression import Buffer, compress
from kohort.protocol.records import Header
from kohort.types import TopicPartition

__all__ = ["Delivery", "Producer", "RecordMetadata"]

_OVERHEAD: Final = 32
"""Bytes of a record besides key, value and headers; an upper limit for all but the longest."""

_numbers: Final = itertools.count(1)


class Producer:
    """A producer, used from one event loop.

    A Cluster that is passed in stays open; with a ClientConfig the producer opens its own.
    """

    def __init__(
        self,
        cluster: ClientConfig | Cluster,
        *,
        acks: Acks = "all",
        compression: str = "none",
        linger_ms: float = 5,
        batch_size: int = 16_384,
        enable_idempotence: bool | None = None,
        max_in_flight_requests_per_connection: int = 5,
        max_request_size: int = 1_048_576,
        buffer_memory: int = 33_554_432,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        partitioner: Partitioner = murmur2_partitioner,
    ) -> None:
        """Java's names and defaults; sizes in bytes. Raises ConfigError.

        `enable_idempotence` follows from `acks` unless it is given: sequences need acks="all".
        """
        self.config = ProducerConfig(
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            batch_size=batch_size,
            enable_idempotence=enable_idempotence,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            max_request_size=max_request_size,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
        )
        self._owns_cluster = isinstance(cluster, ClientConfig)
        self.cluster = Cluster(cluster) if isinstance(cluster, ClientConfig) else cluster
        self._partitioner = partitioner
        self._ids = ProducerIds(self.cluster, enabled=self.config.is_idempotent)
        self._purpose = f"produce {next(_numbers)}"
        self._partitions: dict[TopicPartition, ProducePartition] = {}
        self._sticky: dict[str, Sticky] = {}
        self._buffer_pool = BufferPool(buffer_memory)
        self._largest = min(max_request_size, buffer_memory)
        self._unseen: list[ProduceBatch] = []
        self._sender: Sender | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.flush()
        except Exception:
            if kind is None:
                raise  # else the exception in flight is the cause
        finally:
            await self.close(timeout_ms=0)

    def __repr__(self) -> str:
        return f"<Producer {len(self._unsettled())} batches unsettled, {self.buffered_bytes} bytes>"

    @property
    def buffered_bytes(self) -> int:
        """Bytes of all records that are not settled yet."""
        return self._buffer_pool.used

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record (`timestamp` in ms, default: now); await the delivery to know its outcome.

        Raises KafkaError (MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION,
        TOPIC_AUTHORIZATION_FAILED…), GaveUpError if there is no metadata of the topic,
        BufferFullError. Awaiting the delivery raises KafkaError with the broker's code, or
        DeliveryTimeoutError; both name the partition.
        """
        size = _OVERHEAD + len(key or b"") + len(value or b"")
        if headers:
            size += sum(len(name) * 4 + len(content or b"") + 10 for name, content in headers)
        known = self.cluster.known_topic(topic) or await self._find(topic)
        tp = TopicPartition(
            topic, self._choose(known, key, size) if partition is None else partition
        )
        if partition is not None and known.partition(partition) is None:
            raise KafkaError(_UNKNOWN, f"{tp}: the topic has {len(known.partitions)} partitions")
        if size > self._largest:
            raise KafkaError(
                ErrorCode.message_too_large,
                f"{tp}: {size} bytes; see max_request_size, buffer_memory",
            )
        if not self._buffer_pool.has(size):
            await self._wait_for_memory(tp, size)
        stamp = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        batch, is_new = self._open_batch(tp, size, stamp)
        before = batch.size
        delivery = batch.append(key, value, headers, stamp)
        self._buffer_pool.take(batch.size - before)
        if batch.size >= self.config.batch_size:
            batch.close()
            self._wake_sender()
            await asyncio.sleep(0)  # let the sender run even if the caller never waits
        elif is_new:
            self._wake_sender()
        return delivery

    async def send_encoded(
        self,
        tp: TopicPartition,
        payload: Buffer,
        count: int,
        *,
        base_timestamp: int,
        max_timestamp: int,
    ) -> Delivery:
        """Queue a whole batch of `count` records that the caller has encoded.

        The payload is in format v2, uncompressed, with deltas from 0 and from `base_timestamp`; it
        may change after the return. The delivery is that of the first record. Raises as `send`.
        """
        known = self.cluster.known_topic(tp.topic) or await self._find(tp.topic)
        if known.partition(tp.partition) is None:
            raise KafkaError(_UNKNOWN, f"{tp}: the topic has {len(known.partitions)} partitions")
        if not self._buffer_pool.has(len(payload)):
            await self._wait_for_memory(tp, len(payload))
        queue = self._partition(tp)
        if queue.open is not None:
            queue.open.close()
        compressed = compress(self.config.codec, payload)
        batch = self._new_batch(queue, base_timestamp)
        delivery = batch.append_encoded(compressed, len(payload), count, max_timestamp)
        self._buffer_pool.take(len(payload))
        self._wake_sender()
        await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        """Send all records that are queued now, and wait until they are settled.

        Raises the first error of a delivery that was not awaited.
        """
        unsettled = self._unsettled()
        for batch in unsettled:
            batch.close()
        self._wake_sender()
        for batch in unsettled:
            await batch.settled()
        unseen, self._unseen = self._unseen, []
        for batch in unseen:
            if not batch.is_awaited and (error := batch.done.exception()) is not None:
                raise error

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Send queued records, for `timeout_ms` at most (default: no limit), and end. Idempotent.

        Raises as `flush`.
        """
        if self._closed:
            return
        try:
            if timeout_ms != 0:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self.flush()
        except TimeoutError:
            pass
        finally:
            self._closed = True
            if self._sender is not None:
                await self._sender.close()
            await self.cluster.release(self._purpose)
            if self._owns_cluster:
                await self.cluster.close()

    # Topic and partition of a record

    async def _find(self, topic: str) -> TopicMetadata:
        return await retrying(
            lambda: self._ask(topic),
            what=f"metadata of topic {topic!r}",
            timeout_ms=self.config.max_block_ms,
            backoff=self.cluster.backoff(),
            advice="check the topic's name, and that the brokers can be reached",
        )

    async def _ask(self, topic: str) -> TopicMetadata:
        found = (await self.cluster.metadata([topic], allow_auto_create=True)).topics[topic]
        if found.error is not ErrorCode.none:
            raise KafkaError(found.error, f"topic {topic}")
        if not found.partitions:
            raise KafkaError(ErrorCode.leader_not_available, f"topic {topic} has no partitions yet")
        return self.cluster.known_topic(topic) or found

    def _choose(self, topic: TopicMetadata, key: bytes | None, size: int) -> int:
        chosen = self._partitioner(topic.name, key, len(topic.partitions))
        if chosen is not None:
            return chosen
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            sticky = self._sticky[topic.name] = Sticky(self.config.batch_size, random.choice)
        able = [each.index for each in topic.partitions if each.leader != NO_LEADER]
        return sticky.next(size, able or [each.index for each in topic.partitions])

    # Batches

    def _partition(self, tp: TopicPartition) -> ProducePartition:
        """The queue of a partition. Raises KohortError after `close`."""
        if self._closed:
            raise KohortError(f"{tp}: the producer is closed, and sends no more records")
        found = self._partitions.get(tp)
        if found is None:
            found = self._partitions[tp] = ProducePartition(tp, self.config.in_flight_per_partition)
        return found

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
        batch = ProduceBatch(partition.tp, partition.next_number(), self.config.codec, now, stamp)
        partition.waiting.append(batch)
        self._buffer_pool.take(batch.size)
        if self._sender is None:
            self._sender = Sender(
                self.cluster, self.config, self._ids, self._purpose, self._settled
            )
        self._sender.add(partition)
        return batch

    def _unsettled(self) -> list[ProduceBatch]:
        return [
            batch
            for each in self._partitions.values()
            for batch in (*each.in_flight, *each.waiting)
        ]

    def _wake_sender(self) -> None:
        if self._sender is not None:
            self._sender.wake()

    def _settled(self, batch: ProduceBatch) -> None:
        self._buffer_pool.give_back(batch.size)
        if batch.halves is not None:
            self._buffer_pool.take(sum(half.size for half in batch.halves))
        elif not batch.is_awaited and batch.done.exception() is not None:
            self._unseen.append(batch)

    async def _wait_for_memory(self, tp: TopicPartition, size: int) -> None:
        sender = self._sender
        if sender is not None:
            sender.hurry += 1
            sender.wake()
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await self._buffer_pool.wait_for(size)
        except TimeoutError:
            raise BufferFullError(
                f"{tp}: no room for a record within {self.config.max_block_ms / 1000:g} "
                f"s, {self._buffer_pool.used} bytes "
                "wait for the brokers; send more slowly, or raise buffer_memory or max_block_ms"
            ) from None
        finally:
            if sender is not None:
                sender.hurry -= 1


_UNKNOWN: Final = ErrorCode.unknown_topic_or_partition
