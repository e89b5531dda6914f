"""Nodes on one PostgreSQL that connect to each other by TLS and SASL, and need CLUSTER_ACTION."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kohort.client import ClientConfig, Consumer, Producer, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.security import Security
from kohort.errors import ErrorCode, KohortError
from kohort.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from server.certificates import Authority
from server.net.bench import Peer
from server.postgres_nodes_bench import PARTITIONS, WITHIN_S, Nodes

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
IDS = [f"billing-{number}" for number in range(4)]
"""Transactional ids, whose coordinators are different nodes."""
OF_NODES = ("add_partitions_to_txn", "write_txn_markers")
CLUSTER_ACTION = AclBinding(
    ResourceType.CLUSTER,
    CLUSTER_NAME,
    PatternType.LITERAL,
    "User:nodes",
    "*",
    AclOperation.CLUSTER_ACTION,
    AclPermissionType.ALLOW,
)

Kind = Callable[[Authority], tuple[dict[str, str], Security]]
"""The settings of nodes, and what "admin" connects with."""


def scram(authority: Authority) -> tuple[dict[str, str], Security]:
    module = f"{SCRAM_LOGIN_MODULE} required username=nodes password=s3cret;"
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": module,
    }, Security(
        protocol="SASL_SSL",
        ssl_cafile=str(authority.file),
        mechanism="SCRAM-SHA-512",
        username="admin",
        password="adm1n",
    )


def plain(authority: Authority) -> tuple[dict[str, str], Security]:
    module = (
        f"{PLAIN_LOGIN_MODULE} required username=nodes password=s3cret "
        "user_nodes=s3cret user_admin=adm1n;"
    )
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": module,
    }, Security(
        protocol="SASL_SSL",
        ssl_cafile=str(authority.file),
        mechanism="PLAIN",
        username="admin",
        password="adm1n",
    )


def mutual(authority: Authority) -> tuple[dict[str, str], Security]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]*).*$/$1/",
    }, Security(
        protocol="SSL",
        ssl_cafile=str(authority.file),
        ssl_certfile=str(authority.issue("admin.pem", common_name="admin")),
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def secured(database: str, authority: Authority, directory: Path, kind: Kind) -> Nodes:
    settings, security = kind(authority)
    settings |= {
        "ssl.keystore.location": str(authority.issue("nodes.pem", common_name="nodes")),
        "ssl.truststore.location": str(authority.file),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    return Nodes(database, settings, security, sockets=directory)


async def set_up(nodes: Nodes, *acls: AclBinding) -> None:
    """Make the first users and ACLs, by the socket of the first node."""
    (first,) = nodes.brokers.values()
    local = ClientConfig(bootstrap=f"unix:{first.config['local.socket']}")
    async with Cluster(local) as cluster:
        admin = Admin(cluster)
        await admin.set_scram_password("admin", "adm1n")
        await admin.set_scram_password("nodes", "s3cret")
        for error in (await admin.create_acls(acls)).values():
            assert error is None


async def write(nodes: Nodes, transactional_id: str) -> None:
    """A transaction over all partitions."""
    config = nodes.client
    async with (
        asyncio.timeout(WITHIN_S),
        Producer(config, transactional_id=transactional_id) as producer,
        producer.transaction(),
    ):
        for partition in range(PARTITIONS):
            await producer.send("orders", transactional_id.encode(), partition=partition)


async def read(nodes: Nodes, count: int) -> list[bytes | None]:
    async with (
        asyncio.timeout(WITHIN_S),
        Consumer(nodes.client, isolation_level="read_committed") as consumer,
    ):
        await consumer.assign([TopicPartition("orders", each) for each in range(PARTITIONS)])
        return [(await anext(consumer)).value for _ in range(count)]


def asked(nodes: Nodes) -> Mapping[str, int]:
    """What nodes have asked each other."""
    found = [each.listener.statistics().requests for each in nodes.brokers.values()]
    return {api: sum(requests.get(api, 0) for requests in found) for api in OF_NODES}


@pytest.mark.parametrize("kind", [scram, plain, mutual])
async def test_three_nodes_trust_each_other(
    database: str, authority: Authority, tmp_path: Path, kind: Kind
) -> None:
    async with secured(database, authority, tmp_path, kind) as nodes:
        await nodes.start(1)
        await set_up(nodes, CLUSTER_ACTION)
        await nodes.start(2, 3)
        await nodes.create()
        await nodes.led_by(1, 2, 3)
        for transactional_id in IDS:
            await write(nodes, transactional_id)
        found = await read(nodes, PARTITIONS * len(IDS))
        assert sorted(found) == sorted(each.encode() for each in IDS for _ in range(PARTITIONS))
        assert all(asked(nodes).values())


async def test_a_node_needs_cluster_action(
    database: str, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(database, authority, tmp_path, plain) as nodes:
        await nodes.start(1)
        await set_up(nodes)
        await nodes.start(2)
        await nodes.create()
        await nodes.led_by(1, 2)
        with pytest.raises(KohortError):
            await write(nodes, "billing")
        assert "the principal of this node needs CLUSTER_ACTION on the cluster" in caplog.text
        async with Cluster(nodes.client) as cluster:
            await Admin(cluster).create_acls([CLUSTER_ACTION])
        await write(nodes, "billing")
        assert await read(nodes, PARTITIONS) == [b"billing"] * PARTITIONS


async def test_nodes_become_another_user_one_by_one(
    database: str, authority: Authority, tmp_path: Path
) -> None:
    async with secured(database, authority, tmp_path, scram) as nodes:
        await nodes.start(1)
        await set_up(nodes, CLUSTER_ACTION, CLUSTER_ACTION._replace(principal="User:later"))
        await nodes.start(2)
        await nodes.create()
        await nodes.led_by(1, 2)
        async with Cluster(nodes.client) as cluster:
            await Admin(cluster).set_scram_password("later", "n3w")
        module = f"{SCRAM_LOGIN_MODULE} required username=later password=n3w;"
        nodes.settings["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"] = module
        for number in (1, 2):
            await nodes.stop(number)
            await nodes.start(number)
            await nodes.led_by(1, 2)
            await write(nodes, "billing")
        async with Cluster(nodes.client) as cluster:
            await Admin(cluster).delete_scram_credential("nodes")
        await write(nodes, "billing")
        assert len(await read(nodes, 3 * PARTITIONS)) == 3 * PARTITIONS


async def test_a_client_without_cluster_action_can_use_no_api_of_nodes(database: str) -> None:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    async with Nodes(database, settings) as nodes:
        await nodes.start(1)
        peer = Peer(*await asyncio.open_connection(*nodes.brokers[1].address))
        producer = {"transactional_id": "a", "producer_id": 1, "producer_epoch": 0}
        topics = [{"name": "__consumer_offsets", "partitions": [0]}]
        for verify_only in (True, False):
            transaction = {**producer, "verify_only": verify_only, "topics": topics}
            told = await peer.ask("add_partitions_to_txn", 5, transactions=[transaction])
            assert told.error_code is ErrorCode.cluster_authorization_failed
        told = await peer.ask(
            "write_txn_markers",
            1,
            markers=[
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [{"name": "__consumer_offsets", "partition_indexes": [0]}],
                }
            ],
        )
        (((partition,),),) = (
            [topic.partitions for topic in marker.topics] for marker in told.markers
        )
        assert partition.error_code is ErrorCode.cluster_authorization_failed
        peer.leave()
