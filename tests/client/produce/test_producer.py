"""Producing to our own server: codecs, keys, bounds, back pressure, what comes of each record."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.fetch.fetcher import EARLIEST, Fetcher
from kohort.client.produce.partitioner import murmur2_partitioner
from kohort.client.produce.producer import Producer
from kohort.client.record import Record
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.protocol import batches
from kohort.protocol.compression import Codec
from kohort.server.broker import Broker
from kohort.types import TopicPartition


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.topics.create("orders", 3)


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    async with Producer(cluster) as opened:
        yield opened


async def everything(cluster: Cluster, topic: str = "orders", partitions: int = 3) -> list[Record]:
    """All records of a topic, by partition and offset."""
    tps = [TopicPartition(topic, index) for index in range(partitions)]
    async with Fetcher(cluster) as fetcher:
        fetcher.assign(dict.fromkeys(tps, EARLIEST))
        found = []
        for tp in tps:
            while (fetcher.lag(tp) or 0) or fetcher.lag(tp) is None:
                batch = await fetcher.next(tp, max_wait_ms=100)
                found += batch.records if batch else []
        return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec(broker: Broker, cluster: Cluster, compression: str) -> None:
    headers = (("a", b"1"), ("b", None), ("a", b""))
    async with Producer(cluster, compression=compression) as producer:
        deliveries = [
            await producer.send(
                "orders", b"v%d" % n, key=b"k%d" % n, headers=headers, timestamp=1000 + n
            )
            for n in range(1000)
        ]
        told = [await delivery for delivery in deliveries]
    found = {(record.partition, record.offset): record for record in await everything(cluster)}
    assert len(found) == 1000
    for n, metadata in enumerate(told):
        record = found[metadata.partition, metadata.offset]
        assert (record.key, record.value, record.headers) == (b"k%d" % n, b"v%d" % n, headers)
        assert record.timestamp == metadata.timestamp == 1000 + n
        assert metadata.partition == murmur2_partitioner("orders", record.key, 3)
    stored = broker.topics.get("orders").partitions[0].read(0, 100)  # type: ignore[union-attr]
    assert batches.Codec(batches.read_header(stored).codec).name.lower() == compression


async def test_records_of_a_partition_keep_their_order(cluster: Cluster) -> None:
    async with Producer(cluster, batch_size=200, linger_ms=0) as producer:
        for n in range(2000):
            await producer.send("orders", b"%d" % n, partition=n % 3)
    found = await everything(cluster)
    for index in range(3):
        assert [record.value for record in found if record.partition == index] == [
            b"%d" % n for n in range(index, 2000, 3)
        ]


async def test_null_keys_and_values(cluster: Cluster, producer: Producer) -> None:
    await (await producer.send("orders", None, key=None, partition=2))
    await (await producer.send("orders", b"", key=b"", partition=2))
    assert [(record.key, record.value) for record in await everything(cluster)] == [
        (None, None),
        (b"", b""),
    ]


async def test_records_that_linger_go_together(broker: Broker, cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=30) as producer:
        deliveries = [await producer.send("orders", b"x", partition=0) for _ in range(5)]
        await asyncio.sleep(0.005)
        deliveries += [await producer.send("orders", b"x", partition=0) for _ in range(5)]
        await deliveries[0]
    stored = broker.topics.get("orders").partitions[0].read(0, 10_000)  # type: ignore[union-attr]
    assert [header.record_count for _, header in batches.iterate(stored)] == [10]


async def test_flush_sends_at_once_and_waits(cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=60_000) as producer:
        delivery = await producer.send("orders", b"x")
        async with asyncio.timeout(1):
            await producer.flush()
        assert delivery.done()


async def test_leaving_the_block_sends_what_is_left(cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=60_000) as producer:
        await producer.send("orders", b"x")
    assert len(await everything(cluster)) == 1


@pytest.mark.parametrize("acks", [0, 1, "all", "-1"])
async def test_acks(cluster: Cluster, acks: Any) -> None:
    async with Producer(cluster, acks=acks) as producer:
        metadata = await (await producer.send("orders", b"x", partition=1))
    assert metadata.offset == (-1 if acks == 0 else 0)
    await asyncio.sleep(0.02)
    assert len(await everything(cluster)) == 1


async def test_sequences_go_on(broker: Broker, cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=0) as producer:
        for count in (3, 2, 1):
            for delivery in [
                await producer.send("orders", b"x", partition=0) for _ in range(count)
            ]:
                await delivery
    stored = broker.topics.get("orders").partitions[0].read(0, 10_000)  # type: ignore[union-attr]
    headers = [header for _, header in batches.iterate(stored)]
    assert [header.base_sequence for header in headers] == [0, 3, 5]
    assert len({header.producer_id for header in headers}) == 1
    assert headers[0].producer_id >= 0


async def test_without_idempotence_there_are_none(broker: Broker, cluster: Cluster) -> None:
    async with Producer(cluster, enable_idempotence=False) as producer:
        await (await producer.send("orders", b"x", partition=0))
    stored = broker.topics.get("orders").partitions[0].read(0, 10_000)  # type: ignore[union-attr]
    assert batches.read_header(stored).producer_id == -1


async def test_a_topic_is_made_when_the_broker_makes_topics(
    cluster: Cluster, producer: Producer
) -> None:
    metadata = await (await producer.send("fresh", b"x"))
    assert metadata.topic == "fresh"


async def test_a_partition_that_is_not_there(producer: Producer) -> None:
    with pytest.raises(KafkaError, match="orders-7: the topic has 3 partitions"):
        await producer.send("orders", b"x", partition=7)


async def test_a_topic_name_that_is_none(producer: Producer) -> None:
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        await producer.send("no such/name", b"x")


async def test_a_record_that_is_too_large(cluster: Cluster, producer: Producer) -> None:
    with pytest.raises(KafkaError, match=r"MESSAGE_TOO_LARGE: orders-0: .*see max_request_size"):
        await producer.send("orders", bytes(2_000_000), partition=0)
    async with Producer(cluster, max_request_size=4_000_000) as generous:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: orders-0") as info:
            await (await generous.send("orders", bytes(2_000_000), partition=0))
        assert info.value.code is ErrorCode.message_too_large


async def test_a_batch_that_is_too_large_is_sent_in_parts(broker: Broker, cluster: Cluster) -> None:
    broker.topics.create("small", 1, {"max.message.bytes": "3000"})
    async with Producer(cluster, batch_size=50_000) as producer:
        deliveries = [await producer.send("small", b"%4d" % n + bytes(400)) for n in range(100)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
    found = await everything(cluster, "small", 1)
    assert [int((record.value or b"")[:4]) for record in found] == list(range(100))


async def test_a_refused_batch_names_its_partition_and_the_rest_goes_on(
    broker: Broker, cluster: Cluster
) -> None:
    broker.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster, linger_ms=0) as producer:
        refused = await producer.send("compacted", b"without a key")
        with pytest.raises(KafkaError, match="INVALID_RECORD: compacted-0") as info:
            await refused
        assert info.value.code is ErrorCode.invalid_record
        assert (await (await producer.send("compacted", b"v", key=b"k"))).offset == 0


async def test_an_error_that_nobody_awaited_is_raised_by_flush(
    broker: Broker, cluster: Cluster
) -> None:
    broker.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster) as producer:
        await producer.send("compacted", b"without a key")
        with pytest.raises(KafkaError, match="INVALID_RECORD: compacted-0"):
            await producer.flush()
        await producer.flush()
    with pytest.raises(KafkaError, match="INVALID_RECORD: compacted-0"):
        async with Producer(cluster) as producer:
            await producer.send("compacted", b"without a key")


async def test_an_error_of_the_application_is_not_hidden_by_ours(
    broker: Broker, cluster: Cluster
) -> None:
    broker.topics.create("compacted", 1, {"cleanup.policy": "compact"})

    async def fail() -> None:
        async with Producer(cluster) as producer:
            await producer.send("compacted", b"without a key")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_one_of_many_who_await_a_delivery_may_be_cancelled(cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=30) as producer:
        delivery = await producer.send("orders", b"x", partition=0)

        async def wait() -> int:
            return (await delivery).offset

        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0.005)
        first.cancel()
        assert await second == 0


async def test_sending_without_pause_is_held_back(cluster: Cluster) -> None:
    async with Producer(cluster, buffer_memory=50_000, batch_size=10_000) as producer:
        for _ in range(1000):
            await producer.send("orders", bytes(1000))
            assert producer.buffered_bytes <= 50_000
    assert len(await everything(cluster)) == 1000
    assert producer.buffered_bytes == 0


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
async def test_encoded_batches_as_they_are_from_memory_that_is_used_again(
    cluster: Cluster, codec: str
) -> None:
    content = [batches.Record(b"k", b"v%d" % n, (), 1000 + n) for n in range(50)]
    payload = bytearray(batches.build(content)[batches.HEADER_SIZE :])
    tp = TopicPartition("orders", 1)
    async with Producer(cluster, compression=codec) as producer:
        await producer.send("orders", b"before", partition=1)
        first = await producer.send_encoded(
            tp, memoryview(payload), 50, base_timestamp=1000, max_timestamp=1049
        )
        payload[:] = bytes(len(payload))
        await producer.send("orders", b"behind", partition=1)
        assert (await first).offset == 1
    found = await everything(cluster)
    assert [record.value for record in found] == [
        b"before",
        *(b"v%d" % n for n in range(50)),
        b"behind",
    ]
    assert [record.timestamp for record in found[1:51]] == list(range(1000, 1050))


async def test_what_cannot_be_compressed_leaves_nothing(cluster: Cluster) -> None:
    payload = batches.build([batches.Record(b"k", b"v", (), 1000)])[batches.HEADER_SIZE :]
    no_bytes: Any = ["no", "bytes"]
    tp = TopicPartition("orders", 1)
    async with Producer(cluster, compression="lz4") as producer:
        with pytest.raises(TypeError):
            await producer.send_encoded(tp, no_bytes, 1, base_timestamp=1000, max_timestamp=1000)
        assert producer.buffered_bytes == 0
        await producer.send_encoded(tp, payload, 1, base_timestamp=1000, max_timestamp=1000)
    assert [record.value for record in await everything(cluster)] == [b"v"]


async def test_log_append_time_is_told(broker: Broker, cluster: Cluster) -> None:
    broker.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    async with Producer(cluster) as producer:
        metadata = await (await producer.send("stamped", b"x", timestamp=5))
    (record,) = await everything(cluster, "stamped", 1)
    assert record.timestamp == metadata.timestamp > 1_600_000_000_000


async def test_its_own_cluster_is_closed_with_it(config: ClientConfig) -> None:
    async with Producer(config) as producer:
        await producer.send("orders", b"x")
    assert producer.cluster.purposes == frozenset()
    await producer.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acks": 2}, "acks 2: it is 0, 1 or all"),
        ({"compression": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        ({"acks": 1, "enable_idempotence": True}, "idempotence needs acks=all"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight"),
        ({"buffer_memory": 0}, "buffer_memory"),
        ({"batch_size": -1}, "batch_size"),
        ({"max_block_ms": -1}, "max_block_ms"),
    ],
)
async def test_values_that_are_refused(
    config: ClientConfig, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        Producer(config, **options)


async def test_a_closed_producer_takes_no_records(cluster: Cluster) -> None:
    """A record that nobody sends would be waited for without end."""
    producer = Producer(cluster)
    await (await producer.send("orders", b"a"))
    await producer.close()
    with pytest.raises(KohortError, match="the producer is closed"):
        await producer.send("orders", b"b")
