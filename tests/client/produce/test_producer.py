"""Producing to our own server: codecs, keys, bounds, back pressure, what comes of each record."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.errors import GaveUpError
from kohort.client.fetch.fetcher import EARLIEST, Fetcher
from kohort.client.produce.partitioner import murmur2_partitioner
from kohort.client.produce.producer import Producer
from kohort.client.record import Record
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.protocol import batches
from kohort.protocol.compression import Codec, compress
from kohort.server.broker import Broker
from kohort.server.controller import NewPartitions
from kohort.types import TopicPartition


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 3)


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
async def test_records_of_every_codec_are_stored_and_read(
    broker: Broker, cluster: Cluster, compression: str
) -> None:
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
        async with asyncio.timeout(30):
            await producer.flush()
        assert delivery.done()


async def test_leaving_the_block_sends_what_is_left(cluster: Cluster) -> None:
    async with Producer(cluster, linger_ms=60_000) as producer:
        await producer.send("orders", b"x")
    assert len(await everything(cluster)) == 1


@pytest.mark.parametrize("acks", [0, 1, "all", "-1"])
async def test_every_acks_setting_stores_the_record(cluster: Cluster, acks: Any) -> None:
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
    assert await producer.partitions_for("other") == [TopicPartition("other", 0)]


async def test_a_broker_that_is_away_is_told_of(broker: Broker, config: ClientConfig) -> None:
    await broker.close()
    async with Producer(config, max_block_ms=1_000) as producer:
        with pytest.raises(GaveUpError, match=f"{broker.address}: Connection refused"):
            await producer.send("made", b"v")


async def test_a_partition_that_is_not_there(cluster: Cluster) -> None:
    async with Producer(cluster, max_block_ms=150) as producer:
        with pytest.raises(GaveUpError, match="orders-7: the topic has 3 partitions"):
            await producer.send("orders", b"x", partition=7)


async def test_a_partition_that_was_just_added(
    broker: Broker, cluster: Cluster, producer: Producer
) -> None:
    await producer.send("orders", b"x")
    await broker.controller.topics.create_partitions([NewPartitions("orders", 4)])
    assert (await producer.send_and_wait("orders", b"x", partition=3)).partition == 3


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
    broker.controller.topics.create("small", 1, {"max.message.bytes": "3000"})
    async with Producer(cluster, batch_size=50_000) as producer:
        deliveries = [await producer.send("small", b"%4d" % n + bytes(400)) for n in range(100)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
    found = await everything(cluster, "small", 1)
    assert [int((record.value or b"")[:4]) for record in found] == list(range(100))


async def test_a_refused_batch_names_its_partition_and_the_rest_goes_on(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster, linger_ms=0) as producer:
        refused = await producer.send("compacted", b"without a key")
        with pytest.raises(KafkaError, match="INVALID_RECORD: compacted-0") as info:
            await refused
        assert info.value.code is ErrorCode.invalid_record
        assert (await (await producer.send("compacted", b"v", key=b"k"))).offset == 0


async def test_an_error_that_nobody_awaited_is_raised_by_flush(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster) as producer:
        await producer.send("compacted", b"without a key")
        with pytest.raises(ExceptionGroup, match="1 records were not delivered: 1 of compacted-0"):
            await producer.flush()
        await producer.flush()
    with pytest.raises(ExceptionGroup) as info:
        async with Producer(cluster) as producer:
            await producer.send("compacted", b"without a key")
    assert "INVALID_RECORD: compacted-0" in str(info.value.exceptions[0])


async def test_an_error_is_heard_of_for_each_record(broker: Broker, cluster: Cluster) -> None:
    broker.controller.topics.create("compacted", 2, {"cleanup.policy": "compact"})
    async with Producer(cluster, linger_ms=20) as producer:
        sent = [await producer.send("compacted", b"no key", partition=0) for _ in range(5)]
        await producer.send("compacted", b"no key", partition=1)
        with pytest.raises(KafkaError):
            await sent[1]
        with pytest.raises(KafkaError):
            sent[2].result()
        assert sent[3].exception() is not None
        with pytest.raises(ExceptionGroup) as info:
            await producer.flush()
    assert str(info.value).startswith(
        "3 records were not delivered: 2 of compacted-0, 1 of compacted-1"
    )
    assert len(info.value.exceptions) == 2


async def test_a_caller_that_stopped_waiting_did_not_hear(broker: Broker, cluster: Cluster) -> None:
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster, linger_ms=60_000) as producer:
        delivery = await producer.send("compacted", b"no key")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery, 0.01)
        with pytest.raises(ExceptionGroup):
            await producer.flush()


async def test_a_caller_that_waits_during_a_flush_gets_the_error_alone(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    async with Producer(cluster, linger_ms=60_000) as producer:
        delivery = await producer.send("compacted", b"no key")
        waiting = asyncio.ensure_future(delivery)
        await asyncio.sleep(0)
        await producer.flush()
        with pytest.raises(KafkaError):
            await waiting


async def test_callbacks_get_the_outcome_of_each_record(broker: Broker, cluster: Cluster) -> None:
    broker.controller.topics.create("small", 1, {"max.message.bytes": "3000"})
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    offsets, errors = [], []
    async with Producer(cluster, batch_size=50_000) as producer:
        for _ in range(20):  # the batch is split
            sent = await producer.send("small", bytes(400))
            sent.add_done_callback(lambda delivery: offsets.append(delivery.result().offset))
        sent = await producer.send("compacted", b"no key")
        sent.add_done_callback(lambda delivery: errors.append(delivery.exception()))
    assert offsets == list(range(20))
    assert "INVALID_RECORD" in str(errors[0])


async def test_a_closed_producer_counts_the_undelivered_records_by_partition(
    broker: Broker, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(cluster, linger_ms=60_000)
    for partition in (0, 0, 2):
        await producer.send("orders", b"x", partition=partition)
    with pytest.raises(ExceptionGroup, match="3 records were not delivered: 2 of orders-0, 1 of o"):
        await producer.close(timeout_ms=0)
    await producer.close()

    async def cancelled() -> None:
        async with Producer(cluster, linger_ms=60_000) as producer:
            await producer.send("orders", b"x", partition=1)
            await broker.close()
            asyncio.get_running_loop().call_later(0.02, asyncio.current_task().cancel)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(cancelled())
    assert "1 records were not delivered: 1 of orders-1" in caplog.text


NO_RECORDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": "text"}, TypeError, r"value: bytes or None expected, not str; encode it"),
    ({"value": {"id": 1}}, TypeError, "json.dumps"),
    ({"value": 7}, TypeError, "not int"),
    ({"key": "k"}, TypeError, "key: bytes or None expected, not str"),
    ({"timestamp": 1.5}, TypeError, "int of milliseconds"),
    ({"timestamp": -1}, ValueError, "timestamp -1"),
    ({"timestamp": 1 << 63}, ValueError, "milliseconds since 1970"),
    ({"headers": "ab"}, TypeError, "headers: pairs"),
    ({"headers": [("a", "b")]}, TypeError, "header 'a': bytes or None expected, not str"),
    ({"headers": [(b"a", b"b")]}, TypeError, "its name is a str"),
    ({"headers": [("a",)]}, TypeError, "a pair of a str and bytes"),
    ({"headers": 5}, TypeError, "headers: pairs"),
    ({"partition": "0"}, TypeError, "partition '0': an int"),
    ({"partition": -1}, ValueError, "numbered from 0"),
    ({"topic": b"orders"}, TypeError, "topic b'orders': a str"),
    ({"topic": None}, TypeError, "topic None"),
]


@pytest.mark.parametrize(("changed", "kind", "told"), NO_RECORDS)
async def test_an_invalid_record_is_refused_and_others_are_delivered(
    producer: Producer, changed: dict[str, Any], kind: type[Exception], told: str
) -> None:
    arguments = {"topic": "orders", "value": b"v", "key": b"k"} | changed
    topic, value = arguments.pop("topic"), arguments.pop("value")
    sent = await producer.send("orders", b"before", partition=0)
    with pytest.raises(kind, match=told):
        await producer.send(topic, value, **arguments)
    assert (await producer.send_and_wait("orders", b"behind", partition=0)).offset == 1
    assert (await sent).offset == 0


async def test_memory_that_is_used_again_is_copied(cluster: Cluster) -> None:
    key, value, header = bytearray(b"key"), bytearray(b"value"), bytearray(b"header")
    async with Producer(cluster) as producer:
        await producer.send(
            "orders", memoryview(value), key=key, headers={"h": header}, partition=0
        )
        key[:], value[:], header[:] = b"___", b"_____", b"______"
    (record,) = await everything(cluster)
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"header"),))


async def test_a_partitioner_that_is_wrong(cluster: Cluster) -> None:
    async with Producer(cluster, partitioner=lambda *_: 3) as producer:
        with pytest.raises(ValueError, match="chose partition 3 of topic orders, which has 3"):
            await producer.send("orders", b"x")
    for chosen in (0.0, "0"):
        async with Producer(cluster, partitioner=lambda *_, chosen=chosen: chosen) as producer:
            with pytest.raises(TypeError, match=r"partition .*: an int expected"):
                await producer.send("orders", b"x")


async def test_a_producer_without_a_config_or_cluster_is_refused() -> None:
    for wrong in ("localhost:9092", 5):
        with pytest.raises(ConfigError, match="a ClientConfig or a Cluster is needed"):
            Producer(wrong)  # type: ignore[arg-type]


def test_another_event_loop_is_refused() -> None:
    producer = Producer(ClientConfig(bootstrap="127.0.0.1:1"), max_block_ms=10)
    with pytest.raises(GaveUpError):
        asyncio.run(producer.send("orders", b"x"))
    with pytest.raises(KohortError, match="another event loop"):
        asyncio.run(producer.send("orders", b"y"))


class Faulty(Cluster):
    """A cluster with a fault of the client's own."""

    def cached_leader(self, tp: TopicPartition) -> Any:
        raise ZeroDivisionError("a fault")


async def test_a_fault_of_our_own_ends_what_waits_for_it(config: ClientConfig) -> None:
    async with Faulty(config) as cluster:
        producer = Producer(cluster, linger_ms=0)
        delivery = await producer.send("orders", b"x", partition=0)
        async with asyncio.timeout(60):
            with pytest.raises(KohortError, match="orders-0: the producer failed: ZeroDivision"):
                await delivery
            with pytest.raises(KohortError, match="the producer failed"):
                await producer.send("orders", b"x")
            await producer.flush()
            await producer.close()


@pytest.mark.parametrize(("codec", "most"), [("gzip", 9), ("zstd", 22)])
async def test_a_higher_compression_level_makes_smaller_batches(
    broker: Broker, cluster: Cluster, codec: str, most: int
) -> None:
    words = [b"%d %s" % (n, b"abcdefgh"[: n % 8] * (n % 5)) for n in range(3_000)]
    sizes = []
    for level in (1, most):
        broker.controller.topics.create(f"level{level}", 1)
        async with Producer(
            cluster, compression=codec, compression_level=level, batch_size=500_000
        ) as producer:
            for word in words:
                await producer.send(f"level{level}", word)
        log = broker.topics.get(f"level{level}").partitions[0]  # type: ignore[union-attr]
        sizes.append(len(log.read(0, 1_000_000)))
        found = await everything(cluster, f"level{level}", 1)
        assert [record.value for record in found] == words
    assert sizes[1] < sizes[0]


async def test_an_error_of_the_application_is_not_hidden_by_ours(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})

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


async def test_encoded_batches_of_several_partitions_share_requests(cluster: Cluster) -> None:
    payload = batches.build([batches.Record(b"k", b"v", (), 1000)])[batches.HEADER_SIZE :]
    times = {"base_timestamp": 1000, "max_timestamp": 1000}
    async with Producer(cluster) as producer:
        for partition in (0, 1):  # of each the first is acknowledged before others go
            await producer.send_and_wait("orders", b"first", partition=partition)
        before = producer.metrics().requests.count
        for _ in range(5):
            for tp in (TopicPartition("orders", 0), TopicPartition("orders", 1)):
                await producer.send_encoded(tp, payload, 1, **times)
        await producer.flush()
        assert producer.metrics().requests.count - before <= 7


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
async def test_encoded_batches_that_are_compressed_already(cluster: Cluster, codec: str) -> None:
    content = [batches.Record(b"k", b"v" * 1000, (), 1000) for _ in range(50)]
    payload = batches.build(content)[batches.HEADER_SIZE :]
    compressed = compress(Codec[codec.upper()], payload)
    times = {"base_timestamp": 1000, "max_timestamp": 1000}
    async with Producer(cluster, compression=codec) as producer:
        await producer.send_encoded(
            TopicPartition("orders", 1), compressed, 50, uncompressed_size=len(payload), **times
        )
        assert producer.buffered_bytes >= len(payload)
    assert [record.value for record in await everything(cluster)] == [b"v" * 1000] * 50


async def test_a_compressed_batch_is_copied_unless_it_is_read_only(cluster: Cluster) -> None:
    encoded = batches.build([batches.Record(b"k", b"v", (), 1000)])[batches.HEADER_SIZE :]
    writable, read_only = bytearray(encoded), bytearray(encoded)
    tp = TopicPartition("orders", 1)
    times = {"base_timestamp": 1000, "max_timestamp": 1000}
    async with Producer(cluster) as producer:
        for payload in (memoryview(writable), memoryview(read_only).toreadonly()):
            await producer.send_encoded(tp, payload, 1, uncompressed_size=len(encoded), **times)
        del payload
        writable.clear()
        with pytest.raises(BufferError):  # the producer has a view of it
            read_only.clear()
    assert [record.value for record in await everything(cluster)] == [b"v"] * 2


async def test_several_connections_share_the_partitions(cluster: Cluster) -> None:
    async with Producer(cluster, connections_per_broker=2, batch_size=100) as producer:
        for number in range(100):
            for partition in (0, 1):
                await producer.send("orders", b"%d" % number, partition=partition)
        await producer.flush()
        assert len([purpose for purpose in cluster.purposes if purpose.startswith("produce")]) == 2
    assert not [purpose for purpose in cluster.purposes if purpose.startswith("produce")]
    values = [record.value for record in await everything(cluster)]
    assert values == [b"%d" % number for _ in (0, 1) for number in range(100)]


async def test_a_payload_that_cannot_be_compressed_frees_its_memory(cluster: Cluster) -> None:
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
    broker.controller.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    async with Producer(cluster) as producer:
        metadata = await (await producer.send("stamped", b"x", timestamp=5))
    (record,) = await everything(cluster, "stamped", 1)
    assert record.timestamp == metadata.timestamp > 1_600_000_000_000


async def test_a_producer_closes_the_cluster_that_it_opened(config: ClientConfig) -> None:
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
        ({"connections_per_broker": 1_001}, "connections_per_broker is 1001"),
        ({"buffer_memory": 0}, "buffer_memory"),
        ({"linger_ms": "5"}, "linger_ms is '5'"),
        ({"linger_ms": -1}, "linger_ms is -1"),
        ({"linger_ms": math.nan}, "linger_ms is nan"),
        ({"enable_idempotence": "false"}, "enable_idempotence is 'false'"),
        ({"batch_size": -1}, "batch_size"),
        ({"compression": "snappy", "compression_level": 1}, "'snappy' has no compression_level"),
        ({"compression": "zstd", "compression_level": 23}, "compression_level"),
        ({"partitioner": "murmur3"}, "one of random, consistent, consistent_random, murmur2"),
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


async def test_a_send_that_is_cancelled_has_queued_nothing(cluster: Cluster) -> None:
    """At whatever point: who repeats it does not send the record twice."""
    sent = 1
    async with Producer(cluster, batch_size=100) as producer:
        await producer.send_and_wait("orders", b"", partition=0)
        for number in range(20):
            task = asyncio.create_task(producer.send("orders", bytes(100), partition=0))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            sent += not task.cancelled()
        await producer.flush()
        assert 1 < sent < 21
        assert producer.metrics().records == sent
