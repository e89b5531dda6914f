"""Programs that read a topic as fast as a client library can.

    python -m benchmarks.consumers CLIENT ADDRESS TOPIC N

Each reads every partition from its start, and takes partition, offset, timestamp, key and value of
every record. It prints JSON: the CPU time of its process, the time from its first records to the
one that makes N, and the records and bytes between. Start and connection are not included.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import uvloop

PARTITIONS = 6


class Meter:
    """Counter of records; time starts at the end of the first arrival."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen = 0
        self._records = self._bytes = 0
        self._begin: tuple[float, float] | None = None
        self._end = (0.0, 0.0)

    def more(self, records: int, size: int) -> bool:
        """Count `records` and `size` more; return whether there is more to read."""
        self._seen += records
        if self._begin is None:
            self._begin = time.perf_counter(), time.process_time()
        else:
            self._records += records
            self._bytes += size
            self._end = time.perf_counter(), time.process_time()
        return self._seen < self._count

    def told(self) -> dict[str, float]:
        assert self._begin is not None, "nothing arrived"
        (begin, cpu_begin), (end, cpu_end) = self._begin, self._end
        return {
            "records": self._records,
            "bytes": self._bytes,
            "seconds": end - begin,
            "cpu_s": cpu_end - cpu_begin,
        }


def _take(meter: Meter, records: list[Any]) -> bool:
    """Read partition, offset, timestamp, key and value of each record, as for every client."""
    return meter.more(len(records), sum([len(key) + len(value) for _, _, _, key, value in records]))


def kohort_arrow(address: str, topic: str, meter: Meter) -> None:
    """Read Arrow record batches with all their columns."""
    from kohort.columnar.decoding import decode
    from kohort.protocol.batches import Record, build

    decode(build([Record(b"k", b"v")]), topic=topic, partition=0)  # machine code is loaded now

    def count(batch: Any) -> bool:
        arrow = batch.to_arrow()
        return meter.more(
            arrow.num_rows, _bytes_of(arrow.column("key")) + _bytes_of(arrow.column("value"))
        )

    _kohort(address, topic, count)


def _bytes_of(column: Any) -> int:
    size: int = column.buffers()[2].size
    return size


def kohort_records(address: str, topic: str, meter: Meter) -> None:
    """Read one named tuple for each record."""

    def take(batch: Any) -> bool:
        return _take(
            meter,
            [(each.partition, each.offset, each.timestamp, each.key, each.value) for each in batch],
        )

    _kohort(address, topic, take)


def _kohort(address: str, topic: str, more: Callable[[Any], bool]) -> None:
    from kohort.client.cluster import Cluster
    from kohort.client.config import ClientConfig
    from kohort.client.fetch import EARLIEST, Fetcher
    from kohort.types import TopicPartition

    async def run() -> None:
        async with Cluster(ClientConfig(bootstrap=address)) as cluster, Fetcher(cluster) as fetcher:
            fetcher.assign({TopicPartition(topic, index): EARLIEST for index in range(PARTITIONS)})
            while (batch := await fetcher.next_any(max_wait_ms=10_000)) is not None and more(batch):
                pass

    uvloop.run(run())


def aiokafka(address: str, topic: str, meter: Meter) -> None:
    """Read with `getmany`, which decodes with a C extension."""
    from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            more = True
            while more:
                for records in (await consumer.getmany(timeout_ms=10_000)).values():
                    more = _take(
                        meter,
                        [(r.partition, r.offset, r.timestamp, r.key, r.value) for r in records],
                    )
        finally:
            await consumer.stop()

    uvloop.run(run())


def confluent_kafka(address: str, topic: str, meter: Meter) -> None:
    """Read with `consume` and large queues; librdkafka does not check CRCs by default."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    more = True
    while more:
        messages = consumer.consume(10_000, 1.0)
        more = _take(
            meter,
            [(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value()) for m in messages],
        )
    consumer.close()


def kafka_python(address: str, topic: str, meter: Meter) -> None:
    """Read with `poll`."""
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    consumer = KafkaConsumer(
        bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    more = True
    while more:
        for records in consumer.poll(timeout_ms=10_000, max_records=10_000).values():
            more = _take(
                meter, [(r.partition, r.offset, r.timestamp, r.key, r.value) for r in records]
            )
    consumer.close(autocommit=False)


CLIENTS: dict[str, Callable[[str, str, Meter], None]] = {
    "kohort-arrow": kohort_arrow,
    "kohort": kohort_records,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
    "kafka-python": kafka_python,
}


def main() -> None:
    client, address, topic, count = sys.argv[1:]
    meter = Meter(int(count))
    CLIENTS[client](address, topic, meter)
    print(json.dumps(meter.told()))


if __name__ == "__main__":
    main()
