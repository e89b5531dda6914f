"""What `metrics()` of producers, consumers and members tells."""

import asyncio

import pytest

from client.fake_cluster import FakeCluster
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.consumer import Consumer
from kohort.client.group.group import ConsumerGroup
from kohort.client.metrics import Durations
from kohort.client.produce.producer import Producer
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.types import TopicPartition
from waiting import until

FIRST, SECOND = (TopicPartition("orders", index) for index in range(2))
NOT_LEADER = 6


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 2)


async def fill(cluster: Cluster, count: int = 10) -> None:
    async with Producer(cluster, linger_ms=0) as producer:
        for number in range(count):
            await producer.send_and_wait("orders", b"%d" % number, partition=0)


def is_consistent(durations: Durations) -> bool:
    """Whether the buckets count every duration once."""
    counts = [count for _, count in durations.buckets]
    return counts == sorted(counts) and counts[-1] == durations.count


async def test_a_producer_counts_batches_and_records(config: ClientConfig) -> None:
    async with Producer(config, compression="gzip", linger_ms=1_000, batch_size=600) as producer:
        before = producer.metrics()
        assert (before.records, before.mean_batch_bytes, before.compression_ratio) == (0, 0, 1)
        for _ in range(10):
            await producer.send("orders", b"x" * 100, partition=0)
        queued = producer.metrics()
        assert 0 < queued.queued_records <= 10
        assert 0 < queued.queued_bytes <= queued.buffer_bytes == 33_554_432
        await producer.flush()
        after = producer.metrics()
        assert (after.records, after.batches, after.queued_records) == (10, 3, 0)
        assert after.queued_bytes == after.in_flight_batches == after.failed_records == 0
        assert after.bytes < after.uncompressed_bytes
        assert after.mean_batch_records == 10 / 3
        assert after.delivery_time.count == after.queue_time.count == 3
        assert 1 <= after.requests.count == after.connections.requests["produce"].count
        assert is_consistent(after.delivery_time)
        assert not after.is_closed
    assert producer.metrics().is_closed


async def test_a_producer_counts_what_is_sent_again_and_why() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        errors = [NOT_LEADER, NOT_LEADER, 0]

        def produce(_: object) -> dict[str, object]:
            told = {"index": 0, "error_code": errors.pop(0), "base_offset": 0}
            return {"responses": [{"name": "orders", "partition_responses": [told]}]}

        fake.on("produce", produce)
        fake.on("init_producer_id", {"producer_id": 1, "producer_epoch": 0})
        async with Producer(fake.config()) as producer:
            await producer.send_and_wait("orders", b"value")
            metrics = producer.metrics()
    assert (metrics.resent_batches, metrics.records, metrics.queue_time.count) == (2, 1, 1)
    assert metrics.connections.retries == {"NOT_LEADER_OR_FOLLOWER": 2}


async def test_a_consumer_tells_lag_and_position_of_each_record(cluster: Cluster) -> None:
    await fill(cluster)
    async with Consumer(cluster, group_id="billing") as consumer:
        await consumer.assign([FIRST, SECOND])
        for _ in range(4):
            await anext(consumer)
        metrics = consumer.metrics()
        first = metrics.fetch.partitions[FIRST]
        assert (first.position, first.lag, first.high_watermark) == (4, 6, 10)
        assert first.queued_records == consumer.metrics().fetch.queued_records
        assert metrics.fetch.lag == 6
        assert metrics.fetch.records == 10
        assert metrics.fetch.bytes > 0
        assert metrics.fetch.requests.count >= 1
        consumer.pause(FIRST)
        assert consumer.metrics().fetch.partitions[FIRST].is_paused
        await consumer.commit()
        commits = consumer.metrics().commits
        assert (commits.partitions, commits.requests.latency.count) == (1, 1)
        assert commits.requests.failures == {}
        await consumer.assign([SECOND])
        assert set(consumer.metrics().fetch.partitions) == {SECOND}


async def test_lag_grows_without_another_request(cluster: Cluster) -> None:
    """The fetches that wait at the broker tell of what was appended."""
    await fill(cluster, 1)
    async with Consumer(cluster, fetch_max_wait_ms=100) as consumer:
        await consumer.assign([FIRST])
        await anext(consumer)
        asked = cluster.metrics().connections.requests
        await fill(cluster, 3)
        await asyncio.sleep(1)
        assert consumer.metrics().fetch.partitions[FIRST].lag == 3
        assert consumer.metrics().fetch.partitions[FIRST].queued_records == 3
        listed = cluster.metrics().connections.requests["list_offsets"].count
        assert listed == asked["list_offsets"].count


async def test_a_member_counts_its_requests_and_rebalances(config: ClientConfig) -> None:
    options = {"bootstrap": config.bootstrap, "heartbeat_interval_ms": 100}
    group = ConsumerGroup("g", topics=["orders"], client_id="one", **options)
    with pytest.raises(KohortError, match="enter the group first"):
        group.metrics()
    async with group:
        generation = await group.next()
        await until(lambda: group.metrics().heartbeats.latency.count >= 3)
        await generation.commit({FIRST: 0})
        metrics = group.metrics()
        assert (metrics.client_id, metrics.group_id, metrics.state) == ("one", "g", "stable")
        assert metrics.generation == generation.id
        assert metrics.member_id == group.member_id
        assert set(metrics.assignment) == {FIRST, SECOND}
        assert metrics.rebalances.count == metrics.syncs.latency.count == 1
        assert metrics.rebalances.last_ms == metrics.rebalances.total_ms > 0
        assert metrics.joins.latency.count == 2  # the first one gets the member id
        assert metrics.joins.failures == metrics.syncs.failures == metrics.heartbeats.failures == {}
        assert metrics.heartbeat_age_ms is not None
        assert 0 <= metrics.heartbeat_age_ms < 1_000
        assert (metrics.commits.partitions, metrics.commits.requests.latency.count) == (1, 1)
        async with ConsumerGroup("g", topics=["orders"], **options) as other:
            async with generation:
                await generation.ending()
            again = await asyncio.gather(group.next(), other.next())
            assert [len(each.assignment) for each in again] == [1, 1]
            assert group.metrics().rebalances.count == 2
            assert len(group.metrics().assignment) == 1
            assert group.metrics().lost == 0
            group.stop()
            other.stop()
    assert group.metrics().is_closed


async def test_a_member_counts_failures_and_what_it_lost(config: ClientConfig) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        codes = [15, 16]  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

        def join(_: object) -> dict[str, object]:
            return {"error_code": codes.pop(0) if codes else 30, "members": []}

        fake.on("join_group", join)
        group = ConsumerGroup(
            "g", topics=["orders"], join_group_backoff_ms=10, bootstrap=fake.config().bootstrap
        )
        async with group:
            with pytest.raises(KohortError, match="GROUP_AUTHORIZATION_FAILED"):
                await group.next()
            joins = group.metrics().joins
    assert joins.failures == {
        "COORDINATOR_NOT_AVAILABLE": 1, "NOT_COORDINATOR": 1, "GROUP_AUTHORIZATION_FAILED": 1,
    }  # fmt: skip
    assert joins.latency.count == 3


async def test_connections_count_bytes_failures_and_attempts() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        metrics = cluster.metrics().connections
        assert (metrics.open, metrics.opened, metrics.failed, metrics.in_flight) == (1, 1, 0, 0)
        assert metrics.sent_bytes > 0
        assert metrics.received_bytes > 0
        assert metrics.requests["metadata"].count == metrics.requests["api_versions"].count == 1
        assert metrics.failures == metrics.retries == {}
        await fake.brokers[0].stop()
        with pytest.raises(KohortError):
            await cluster.metadata()
        metrics = cluster.metrics().connections
        assert metrics.open == 0
        assert metrics.failed > 1
        assert metrics.retries["BrokerUnreachableError"] >= metrics.failed
    assert cluster.metrics().is_closed


async def test_throttling_is_counted() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        told = fake.metadata
        fake.on("metadata", lambda request: {**told(request.body), "throttle_time": 250})
        await cluster.metadata()
        throttled = cluster.metrics().connections.throttled
        assert (throttled.count, throttled.total_ms) == (1, 250)
