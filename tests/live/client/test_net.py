"""Cluster, producer, fetcher and admin against processes of Kohort and Apache Kafka."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest

from interop.processes import PATIENCE_S
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.offsets import Offset, list_offsets
from kohort.client.config import ClientConfig, PartitionerName
from kohort.client.errors import GaveUpError, OffsetOutOfRangeError, TopicRecreatedError
from kohort.client.fetch.fetcher import EARLIEST, LATEST, Fetcher
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce.partitioner import partitioner_of
from kohort.client.produce.producer import Producer
from kohort.client.record import Record
from kohort.errors import ErrorCode, KafkaError
from kohort.types import GroupId, TopicPartition
from live.client.app import App
from live.client.brokers import Site
from waiting import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
async def cluster(site: Site) -> AsyncIterator[Cluster]:
    async with Cluster(
        ClientConfig(bootstrap=site.address, client_id="net", retry_backoff_ms=20)
    ) as opened:
        yield opened


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    return Admin(cluster)


@pytest.fixture
async def topic(admin: Admin) -> str:
    """A fresh one with three partitions, which keeps records with timestamps of 1970, too."""
    name = f"net-{uuid4().hex}"
    await admin.create_topic(name, partitions=3, configs={"retention.ms": "-1"})
    return name


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(3)]


async def read(fetcher: Fetcher, count: int) -> list[Record]:
    """The next records of all partitions, exactly so many."""
    found: list[Record] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            batch = await fetcher.next_any(max_wait_ms=1_000)
            found += batch.records if batch is not None else []
    assert len(found) == count
    return found


async def everything(cluster: Cluster, topic: str, count: int) -> list[Record]:
    async with Fetcher(cluster) as fetcher:
        fetcher.assign(dict.fromkeys(partitions(topic), EARLIEST))
        found = await read(fetcher, count)
        assert await fetcher.next_any(max_wait_ms=200) is None
        return sorted(found, key=lambda record: (record.partition, record.offset))


async def test_records_of_every_codec_are_fetched(cluster: Cluster, topic: str) -> None:
    headers = (("a", b"1"), ("none", None), ("empty", b""))
    for codec in CODECS:
        async with Producer(cluster, compression=codec) as producer:
            for n in range(1_500):
                await producer.send(
                    topic,
                    b"%s %d" % (codec.encode(), n),
                    key=b"%d" % n,
                    partition=n % 3,
                    headers=headers,
                    timestamp=n,
                )
    found = await list_offsets(cluster, dict.fromkeys(partitions(topic), LATEST))
    assert [each.offset for each in found.values() if isinstance(each, Offset)] == [2_500] * 3
    records = await everything(cluster, topic, 7_500)
    expected = [
        (index, codec, n) for index in range(3) for codec in CODECS for n in range(index, 1_500, 3)
    ]
    for record, (index, codec, n) in zip(records, expected, strict=True):
        assert (record.partition, record.key, record.value) == (
            index,
            b"%d" % n,
            b"%s %d" % (codec.encode(), n),
        )
        assert (record.timestamp, record.headers) == (n, headers)


async def test_batches_become_arrow(cluster: Cluster, topic: str) -> None:
    async with Producer(cluster, compression="zstd") as producer:
        for n in range(1_000):
            await producer.send(topic, b"%d" % n, partition=0)
    values: list[bytes] = []
    async with Fetcher(cluster) as fetcher:
        fetcher.add(TopicPartition(topic, 0), EARLIEST)
        async with asyncio.timeout(PATIENCE_S):
            while len(values) < 1_000:
                batch = await fetcher.next_any(max_wait_ms=1_000)
                values += batch.to_arrow().column("value").to_pylist() if batch is not None else []
    assert values == [b"%d" % n for n in range(1_000)]


async def test_batches_over_breaking_connections_are_written_once_and_in_order(
    site: Site, topic: str
) -> None:
    """An idempotent producer with five requests in flight sends its batches again and again."""
    config = ClientConfig(
        bootstrap=site.address, client_id="breaking", retry_backoff_ms=5, retry_backoff_max_ms=50
    )
    async with Cluster(config) as cluster:
        async with Producer(cluster, batch_size=500, linger_ms=0) as producer:
            for n in range(3_000):
                await producer.send(topic, b"%d" % n, partition=n % 3)
                if n % 300 == 150:
                    with site.door.shut(breaking="reset"):
                        await asyncio.sleep(0.02)
                await asyncio.sleep(0)
        records = await everything(cluster, topic, 3_000)
    assert [record.value for record in records] == [
        b"%d" % n for index in range(3) for n in range(index, 3_000, 3)
    ]


async def test_fetching_goes_on_over_connections_that_break(site: Site, topic: str) -> None:
    config = ClientConfig(
        bootstrap=site.address, client_id="breaking", retry_backoff_ms=5, retry_backoff_max_ms=50
    )
    async with (
        Cluster(config) as cluster,
        Producer(cluster, batch_size=200) as producer,
        Fetcher(cluster) as fetcher,
    ):
        fetcher.assign(dict.fromkeys(partitions(topic), EARLIEST))
        found: list[Record] = []
        for round_ in range(10):
            for n in range(90):
                await producer.send(topic, b"%d" % (90 * round_ + n), partition=n % 3)
            await producer.flush()
            with site.door.shut(breaking="reset"):
                await asyncio.sleep(0.01)
            found += await read(fetcher, 90)
        assert await fetcher.next_any(max_wait_ms=200) is None
    for index in range(3):
        assert [int(record.value or b"") for record in found if record.partition == index] == list(
            range(index, 900, 3)
        )


async def test_a_topic_made_anew_is_noticed(cluster: Cluster, admin: Admin, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with Fetcher(cluster) as fetcher:
        fetcher.add(tp, 0)
        assert await fetcher.next(tp, max_wait_ms=200) is None
        await admin.delete_topic(topic)
        await asyncio.sleep(0.2)
        await admin.create_topic(topic, partitions=3)
        with pytest.raises(TopicRecreatedError):
            await fetcher.next(tp, max_wait_ms=20_000)


async def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    async with Producer(cluster, batch_size=0) as producer:
        for n in range(10):
            await producer.send(topic, b"x", partition=0, timestamp=1_000 * n)
    first = TopicPartition(topic, 0)

    async def offset(when: int) -> int:
        found = (await list_offsets(cluster, {first: when}))[first]
        assert isinstance(found, Offset)
        return found.offset

    assert [await offset(when) for when in (EARLIEST, LATEST, 0, 1, 4_000, 8_999)] == [
        0,
        10,
        0,
        1,
        4,
        9,
    ]


async def test_records_that_were_deleted_are_out_of_range(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with Producer(cluster) as producer:
        for n in range(10):
            await producer.send(topic, b"%d" % n, partition=0)
    connection = await cluster.connection((await cluster.leader(tp)).node_id)
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 4}]}]
    await connection.send("delete_records", topics=wanted, timeout_ms=10_000)
    async with Fetcher(cluster) as strict, Fetcher(cluster, out_of_range="earliest") as lenient:
        strict.add(tp, 2)
        with pytest.raises(OffsetOutOfRangeError):
            await strict.next(tp, max_wait_ms=10_000)
        lenient.add(tp, 2)
        assert [record.offset for record in await read(lenient, 6)] == list(range(4, 10))


async def test_records_larger_than_a_fetch(cluster: Cluster, topic: str) -> None:
    """A batch always comes whole, however small the bounds (KIP-74)."""
    async with Producer(cluster, max_request_size=2**21) as producer:
        for index in range(3):
            await producer.send(topic, b"%d" % index * 600_000, partition=index)
    async with Fetcher(cluster, max_partition_fetch_bytes=1_000, fetch_max_bytes=2_000) as fetcher:
        fetcher.assign(dict.fromkeys(partitions(topic), EARLIEST))
        found = await read(fetcher, 3)
    assert sorted((record.partition, len(record.value or b"")) for record in found) == [
        (n, 600_000) for n in range(3)
    ]


async def test_errors_of_the_broker_are_raised_with_their_code(
    cluster: Cluster, admin: Admin, topic: str
) -> None:
    with pytest.raises(KafkaError) as exists:
        await admin.create_topic(topic, partitions=1)
    assert exists.value.code is ErrorCode.topic_already_exists
    unknown = (await cluster.metadata(["nobody-made-this"])).topics["nobody-made-this"]
    assert unknown.error is ErrorCode.unknown_topic_or_partition
    async with Producer(cluster, max_request_size=2**22) as producer:
        delivery = await producer.send(topic, b"x" * 2_000_000)
        with pytest.raises(KafkaError) as large:
            await delivery
        assert large.value.code is ErrorCode.message_too_large


async def test_groups_and_offsets_administered(site: Site, admin: Admin, topic: str) -> None:
    name, tps = GroupId(f"group-{uuid4().hex}"), partitions(topic)
    app = App(site.address, name, topics=[topic])
    await until(lambda: len(app.assignment) == 3, seconds=PATIENCE_S)
    described = (await admin.describe_groups([name]))[name]
    assert not isinstance(described, Exception)
    assert described.state == "Stable"
    assert [member.assignment for member in described.members] == [tuple(tps)]
    assert name in {group.group for group in (await admin.list_groups(states=["Stable"])).groups}
    with pytest.raises(KafkaError) as live:
        await admin.commit(name, {tps[0]: OffsetAndMetadata(offset=1)})
    assert live.value.code is ErrorCode.unknown_member_id
    await app.stop()
    offsets = {
        tp: OffsetAndMetadata(offset=tp.partition, metadata=f"m{tp.partition}") for tp in tps
    }
    assert await admin.commit(name, offsets) == dict.fromkeys(tps)
    assert (await admin.committed([name]))[name] == offsets
    assert await admin.delete_offsets(name, tps[:1]) == {tps[0]: None}
    assert (await admin.committed([name]))[name] == {tp: offsets[tp] for tp in tps[1:]}
    assert await admin.delete_groups([name]) == {name: None}
    assert (await admin.committed([name]))[name] == {}


async def test_an_answer_that_does_not_come_is_bounded(site: Site, topic: str) -> None:
    config = ClientConfig(
        bootstrap=site.address,
        client_id="mute",
        request_timeout_ms=500,
        default_api_timeout_ms=1_500,
    )
    async with Cluster(config) as cluster:
        await cluster.metadata([topic])
        began = time.monotonic()
        with site.door.shut(mute="silent"), pytest.raises(GaveUpError):
            await cluster.metadata([topic])
        assert time.monotonic() - began < 4
        assert topic in (await cluster.metadata([topic])).topics


PARTITIONED_KEYS = [b"%d" % n for n in range(40)] + [b"a" * 300, b"\xff\x00"]
SAME_WITHOUT_KEY = ("consistent", "murmur2", "fnv1a")
"""Names of partitioners that have one partition for all records without a key."""


@pytest.mark.parametrize(
    "name", [*SAME_WITHOUT_KEY, *(f"{name}_random" for name in SAME_WITHOUT_KEY)]
)
async def test_names_of_partitioners_mean_what_they_mean_in_librdkafka(
    site: Site, topic: str, name: PartitionerName
) -> None:
    keys = [*PARTITIONED_KEYS, b"", None] if name in SAME_WITHOUT_KEY else PARTITIONED_KEYS
    found: dict[bytes | None, int] = {}

    def delivered(_: object, message: Any) -> None:
        found[message.key()] = message.partition()

    producer = confluent_kafka.Producer({"bootstrap.servers": site.address, "partitioner": name})
    for key in keys:
        producer.produce(topic, b"v", key=key, on_delivery=delivered)
    assert producer.flush(20) == 0

    ours = partitioner_of(name)
    assert len(found) == len(keys)
    assert {key: ours(topic, key, 3) for key in found} == found
    if name not in SAME_WITHOUT_KEY:
        assert ours(topic, None, 3) is None
