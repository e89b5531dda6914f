"""A client that expects another cluster or node than a broker is (KIP-1242), on real brokers."""

from uuid import uuid4

import pytest

from kohort.client import ClientConfig, Cluster, Producer, TopicPartition
from kohort.client.errors import BrokerUnreachableError
from kohort.client.net.handshake import EXPECTED_NODE_SINCE
from live.client.brokers import Site


@pytest.fixture
def config(site: Site) -> ClientConfig:
    return ClientConfig(bootstrap=site.address, retry_backoff_ms=20)


@pytest.fixture
async def topic(site: Site) -> str:
    name = f"rebootstrap-{uuid4().hex}"
    await site.administer(lambda admin: admin.create_topic(name, partitions=1))
    return name


async def knows_the_check(config: ClientConfig) -> bool:
    async with Cluster(config) as cluster:
        connection = await cluster.any_connection()
        return (connection.version("api_versions") or 0) >= EXPECTED_NODE_SINCE


async def test_the_next_connection_starts_from_the_bootstrap_servers(
    config: ClientConfig, topic: str
) -> None:
    """A broker before Apache Kafka 4.4 is not asked, so the client goes on as it was."""
    async with Cluster(config) as cluster:
        real = (await cluster.metadata([topic])).cluster_id
        (node_id,) = cluster.brokers
        held = await cluster.connection(node_id)
        cluster._connections.cluster_id = "another"
        found = await cluster.connection(node_id, "new purpose")
        assert not found.closed
        assert held.closed is await knows_the_check(config)
        assert cluster._connections.cluster_id == (real if held.closed else "another")
        await cluster.leader(TopicPartition(topic, 0))
        assert cluster._connections.cluster_id == real or not held.closed


async def test_a_producer_goes_on(config: ClientConfig, topic: str) -> None:
    async with Producer(config) as producer:
        for number in range(20):
            delivery = await producer.send(topic, b"%d" % number)
            if number % 5 == 0:
                connections = producer.cluster._connections
                connections.cluster_id = "another"
                connections.drop_all(BrokerUnreachableError("cut"))
            assert (await delivery).offset == number
