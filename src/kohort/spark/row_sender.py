"""Encodes rows, and sends them with the producer of a task.

A worker runs one task at a time. Once all its records are acknowledged, a producer has no state
that could disturb the next task. The next task of the same worker therefore reuses its connections,
producer id and topic metadata.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster
from kohort.client.errors import UndeliveredError
from kohort.client.produce import Producer
from kohort.columnar.encoding import Encoded, Rows, encode, partitions_of
from kohort.errors import ErrorCode, KafkaError
from kohort.spark import background, workers
from kohort.spark.write_options import WriteOptions
from kohort.types import TopicPartition

_idle: dict[Cluster, Producer] = {}
"""Producers between tasks, one for each set of options. They end with the process."""


class RowEncoder:
    """Encodes the rows of one task."""

    def __init__(self, options: WriteOptions, cluster: Cluster) -> None:
        workers.settle()
        self._options = options
        self._cluster = cluster
        self._counts: dict[str, int] = {}
        self._filled: dict[str, int] = {}

    def count(self, topic: str) -> int:
        """Number of partitions; requested once in a task. Raises KafkaError, GaveUpError."""
        if topic not in self._counts:
            self._counts[topic] = background.run(
                partition_count(self._cluster, topic, self._options.max_block_ms)
            )
        return self._counts[topic]

    def encode(self, topic: str, batch: Any) -> Iterator[Encoded]:
        """Encode rows as record batches; they stay valid as those of `kohort.columnar.encoding`.

        Raises as it does, and as `count`.
        """
        rows = Rows.of(batch, time.time_ns() // 1_000_000)
        partitions = batch["partition"] if "partition" in batch.schema.names else None
        count, size = self.count(topic), self._options.batch_size
        filled = self._filled.get(topic, random.randrange(count))
        chosen = partitions_of(rows, count, partitions, filled=filled, stay_bytes=size)
        self._filled[topic] = (filled + 1) % count
        return encode(rows, chosen, batch_size=size, max_size=self._options.max_request_size)


class RowSender:
    """The sending of one task.

    The context manager ends when every record is acknowledged, or with the first error.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._cluster = background.run(background.cluster(options.kafka))
        self._encoder = RowEncoder(options, self._cluster)
        self._producer = background.run(_idle_or_new_producer(options, self._cluster))
        self._in_flight: Future[None] | None = None

    def count(self, topic: str) -> int:
        """Number of partitions. Raises as `RowEncoder.count`."""
        return self._encoder.count(topic)

    def send(self, topic: str, batch: Any) -> None:
        """Encode rows, and send them in the background.

        Raises KafkaError, also for rows of earlier calls.
        """
        encoded = self._encoder.encode(topic, batch)
        self._wait()
        self._in_flight = background.start(self._send(topic, encoded))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_flushed = False
        try:
            if kind is None:
                self._wait()
                background.run(self._producer.flush())
                is_flushed = True
        finally:
            if is_flushed:
                _idle[self._cluster] = self._producer
            else:
                if self._in_flight is not None:
                    self._in_flight.cancel()
                with suppress(UndeliveredError):  # the task fails already
                    background.run(self._producer.close(timeout_ms=0))

    def _wait(self) -> None:
        if self._in_flight is not None:
            self._in_flight.result()

    async def _send(self, topic: str, encoded: Iterator[Encoded]) -> None:
        for batch in encoded:
            await self._producer.send_encoded(
                TopicPartition(topic, batch.partition),
                batch.records,
                batch.count,
                base_timestamp=batch.base_timestamp,
                max_timestamp=batch.max_timestamp,
            )


async def _idle_or_new_producer(options: WriteOptions, cluster: Cluster) -> Producer:
    return _idle.pop(cluster, None) or options.producer(cluster)


async def partition_count(cluster: Cluster, topic: str, timeout_ms: int) -> int:
    """Request the number of partitions. Brokers with auto.create.topics.enable create the topic.

    Raises KafkaError; GaveUpError after `timeout_ms`.
    """

    async def attempt() -> int:
        metadata = (await cluster.request_metadata((topic,), allow_auto_create=True)).topics[topic]
        if metadata.error is not ErrorCode.none:
            raise KafkaError(metadata.error, f"topic {topic}")
        if not metadata.partitions:
            raise KafkaError(ErrorCode.leader_not_available, f"topic {topic} has no partitions yet")
        return len(metadata.partitions)

    return await retrying(
        attempt,
        operation=f"partitions of topic {topic}",
        timeout_ms=timeout_ms,
        backoff=cluster.backoff(),
        advice="check the topic's name, and that the brokers can be reached",
    )
