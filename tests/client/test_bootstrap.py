"""Each class of the client takes `bootstrap`, a ClientConfig or an open Cluster."""

from collections.abc import Callable
from typing import Any

import pytest

from kohort.client import Admin, ClientConfig, Cluster, ConfigError, Consumer, ConsumerGroup
from kohort.client import Producer as AsyncProducer
from kohort.client.sync import Consumer as BlockingConsumer
from kohort.client.sync import Producer as BlockingProducer
from kohort.server.broker import Broker
from kohort.types import TopicPartition


@pytest.fixture
def topic(broker: Broker) -> TopicPartition:
    broker.controller.topics.create("orders", 1)
    return TopicPartition("orders", 0)


def ways(config: ClientConfig, cluster: Cluster) -> list[dict[str, Any]]:
    return [{"bootstrap": config.bootstrap}, {"cluster": config}, {"cluster": cluster}]


async def test_admin_takes_bootstrap_a_config_or_a_cluster(
    topic: TopicPartition, config: ClientConfig, cluster: Cluster
) -> None:
    for way in ways(config, cluster):
        async with Admin(**way) as admin:
            assert (await admin.describe_topics())["orders"].partition(0)  # type: ignore[union-attr]
    assert not cluster.metrics().is_closed


async def test_producer_and_consumer(
    topic: TopicPartition, config: ClientConfig, cluster: Cluster
) -> None:
    for n, way in enumerate(ways(config, cluster)):
        async with AsyncProducer(**way) as producer, Consumer(**way) as consumer:
            await producer.send_and_wait("orders", b"%d" % n)
            await consumer.assign({topic: n})
            assert (await anext(consumer)).value == b"%d" % n


async def test_consumer_group_takes_bootstrap_a_config_or_a_cluster(
    topic: TopicPartition, config: ClientConfig, cluster: Cluster
) -> None:
    for n, way in enumerate(ways(config, cluster)):
        async with (
            ConsumerGroup(f"g{n}", topics=["orders"], **way) as group,
            await group.next() as generation,
        ):
            assert generation.assignment == (topic,)
            group.stop()


async def test_cluster_takes_bootstrap_and_options(broker: Broker, config: ClientConfig) -> None:
    async with Cluster(bootstrap=broker.bootstrap, client_id="c") as cluster:
        assert (await cluster.metadata()).brokers
        assert cluster.config.client_id == "c"


CLASSES: list[Callable[..., object]] = [
    Admin,
    AsyncProducer,
    BlockingConsumer,
    BlockingProducer,
    Cluster,
    Consumer,
]


@pytest.mark.parametrize("of", CLASSES)
async def test_two_ways_at_once_are_refused(of: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match="client_id: set it in the ClientConfig"):
        of(ClientConfig(), client_id="c")


@pytest.mark.parametrize("of", CLASSES)
@pytest.mark.parametrize("given", ["localhost:9092", {"bootstrap.servers": "localhost:9092"}, 5])
async def test_another_value_in_place_of_a_config_is_refused(
    of: Callable[..., object], given: object
) -> None:
    with pytest.raises(ConfigError, match=r"a ClientConfig or a Cluster .*bootstrap='localhost"):
        of(given)


@pytest.mark.parametrize("of", [Admin, AsyncProducer, Consumer])
async def test_options_beside_an_open_cluster_are_refused(
    of: Callable[..., object], cluster: Cluster
) -> None:
    with pytest.raises(ConfigError, match="client_id: an open Cluster has its options already"):
        of(cluster, client_id="c")
    with pytest.raises(ConfigError, match="client_id: an open Cluster has its options already"):
        ConsumerGroup("g", topics=["orders"], cluster=cluster, client_id="c")
