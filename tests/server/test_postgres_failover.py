"""A PostgreSQL that has lost what was acknowledged, as after a failover to a standby that lags."""

import asyncio
import logging

import pytest
from aiokafka import AIOKafkaProducer

from kohort.client import Consumer, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.server.broker import Broker
from kohort.server.replicas import Topic
from peers.postgres import Backup, Postgres
from server.postgres_nodes_bench import PARTITIONS, WITHIN_S, Nodes
from server.test_postgres import config as alone
from server.test_postgres import consume as consume_alone
from server.test_postgres import produce as produce_alone

NO_MOVES = {"cluster.rebalance.delay.ms": "600000"}
"""Nothing is logged of the cluster unless a test does."""
PLACES = [TopicPartition("orders", each) for each in range(PARTITIONS)]


async def produce(nodes: Nodes, value: bytes) -> None:
    """One record in each partition, and nothing that the metadata log has."""
    producer = AIOKafkaProducer(
        bootstrap_servers=nodes.client.bootstrap, enable_idempotence=False, metadata_max_age_ms=500
    )
    async with asyncio.timeout(WITHIN_S), producer:
        for partition in range(PARTITIONS):
            await producer.send_and_wait("orders", value, partition=partition)


async def consume(nodes: Nodes, count: int) -> list[bytes | None]:
    async with asyncio.timeout(WITHIN_S), Consumer(nodes.client) as consumer:
        await consumer.assign(PLACES)
        await consumer.seek_to_beginning(*PLACES)
        return sorted([(await anext(consumer)).value for _ in range(count)])


def topic(nodes: Nodes) -> Topic:
    found = nodes.brokers[1].topics.get("orders")
    assert found is not None
    return found


def epochs(nodes: Nodes) -> list[int]:
    return [leader.epoch for leader in nodes.brokers[1].nodes.leaders(topic(nodes))]


@pytest.mark.parametrize("promoted", [True, False])
async def test_records_lost_by_the_database_are_logged_and_begin_a_new_epoch(
    primary: Postgres, caplog: pytest.LogCaptureFixture, promoted: bool
) -> None:
    backup = Backup(primary)
    async with Nodes(primary.url, NO_MOVES) as nodes:
        await nodes.start(1, 2)
        async with asyncio.timeout(WITHIN_S):
            while 2 not in nodes.brokers[1].nodes.ids:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        await nodes.create()
        await nodes.led_by(1, 2)
        await produce(nodes, b"a")
        await asyncio.to_thread(backup.take)
        await produce(nodes, b"lost")
        former = epochs(nodes)
        with caplog.at_level(logging.ERROR, logger="kohort.log"):
            await asyncio.to_thread(backup.restore, promoted=promoted)
            await produce(nodes, b"b")
        await nodes.led_by(1, 2)
        assert all(new > old for new, old in zip(epochs(nodes), former, strict=True))
        assert await consume(nodes, 2 * PARTITIONS) == [b"a"] * PARTITIONS + [b"b"] * PARTITIONS
        told = [each.getMessage() for each in caplog.records]
        for partition in range(PARTITIONS):
            what = f"orders-{partition}: the database has lost what was acknowledged from offset 1"
            assert any(text.startswith(what) for text in told)


@pytest.mark.parametrize("promoted", [True, False])
async def test_a_node_ends_if_the_database_has_lost_what_was_logged_of_the_cluster(
    primary: Postgres, promoted: bool
) -> None:
    backup = Backup(primary)
    async with Nodes(primary.url, NO_MOVES) as nodes:
        await nodes.start(1)
        await nodes.create()
        await nodes.led_by(1)
        await asyncio.to_thread(backup.take)
        async with asyncio.timeout(WITHIN_S), Cluster(nodes.client) as cluster:
            await Admin(cluster).create_topic("lost", partitions=1)
        await asyncio.to_thread(backup.restore, promoted=promoted)
        async with asyncio.timeout(WITHIN_S):
            await nodes.brokers[1].lost.wait()
        await nodes.stop(1)
        await nodes.start(1)
        await nodes.led_by(1)
        assert nodes.brokers[1].topics.get("lost") is None


async def test_a_server_that_is_alone_tells_the_loss_and_serves_what_is_left(
    primary: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    backup = Backup(primary)
    async with Broker(alone(primary.url)) as broker:
        await produce_alone(broker, b"a")
        await asyncio.to_thread(backup.take)
        await produce_alone(broker, b"lost")
        with caplog.at_level(logging.ERROR, logger="kohort.log"):
            await asyncio.to_thread(backup.restore)
            await produce_alone(broker, b"b")
        assert await consume_alone(broker, 2) == [b"a", b"b"]
        orders = broker.topics.get("orders")
        assert orders is not None
        assert orders.partitions[0].leader_epoch > 0
    told = [each.getMessage() for each in caplog.records]
    what = "orders-0: the database has lost what was acknowledged from offset 1 to 1"
    assert any(text.startswith(what) for text in told)
