"""Nodes on one PostgreSQL that change one topic at the same moment, as clients see them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from effort import examples
from kohort.client import ClientConfig
from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode
from kohort.server.cluster.leadership_loop import LeadershipLoop
from server.postgres_nodes_bench import WITHIN_S, Nodes

MS = 20_000
NODES = (1, 2, 3)
REFUSALS = {
    ErrorCode.none,
    ErrorCode.topic_already_exists,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.invalid_partitions,
}

ACL = {
    "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3,
    "principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
async def nodes(database: str) -> AsyncIterator[Nodes]:
    async with Nodes(database, AUTHORIZER) as nodes:
        await nodes.start(*NODES)
        await known(lambda: all({*each.nodes.ids} == {*NODES} for each in nodes.brokers.values()))
        yield nodes


async def known(is_known: Callable[[], bool]) -> None:
    """Return once nodes know what others have done."""
    async with asyncio.timeout(WITHIN_S):
        while not is_known():  # noqa: ASYNC110 - other nodes decide
            await asyncio.sleep(0.01)


class Requests:
    """Requests to a node of one's choice."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(self, node: int, name: str) -> ErrorCode:
        topic = {"name": name, "num_partitions": 2, "replication_factor": -1, "configs": ()}
        response = await self._send(node, "create_topics", topics=[topic], timeout=MS)
        return ErrorCode(response.topics[0].error_code)

    async def create_by_metadata(self, node: int, name: str) -> ErrorCode:
        response = await self._send(
            node,
            "metadata",
            topics=[{"topic_id": None, "name": name}],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )
        return ErrorCode(response.topics[0].error_code)

    async def delete(self, node: int, name: str) -> ErrorCode:
        topic = {"name": name, "topic_id": None}
        response = await self._send(node, "delete_topics", topics=[topic], timeout=MS)
        return ErrorCode(response.responses[0].error_code)

    async def grow(self, node: int, name: str, count: int) -> ErrorCode:
        topic = {"name": name, "count": count, "assignments": None}
        response = await self._send(
            node, "create_partitions", topics=[topic], timeout=MS, validate_only=False
        )
        return ErrorCode(response.results[0].error_code)

    async def set_retention(self, node: int, name: str, ms: int) -> ErrorCode:
        config = {"name": "retention.ms", "config_operation": 0, "value": str(ms)}
        resource = {"resource_type": 2, "resource_name": name, "configs": [config]}
        response = await self._send(
            node, "incremental_alter_configs", resources=[resource], validate_only=False
        )
        return ErrorCode(response.responses[0].error_code)

    async def create_acl(self, node: int) -> ErrorCode:
        response = await self._send(node, "create_acls", creations=[ACL])
        return ErrorCode(response.results[0].error_code)

    async def delete_acl(self, node: int) -> int:
        """How many entries were removed."""
        everything = {
            "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        response = await self._send(node, "delete_acls", filters=[everything])
        return len(response.filter_results[0].matching_acls)

    async def set_quota(self, node: int, *, remove: bool) -> ErrorCode:
        entity = {"entity_type": "user", "entity_name": "alice"}
        change = {"key": "producer_byte_rate", "value": 1_000.0, "remove": remove}
        entry = {"entity": [entity], "ops": [change]}
        response = await self._send(
            node, "alter_client_quotas", entries=[entry], validate_only=False
        )
        return ErrorCode(response.entries[0].error_code)

    async def add_user(self, node: int) -> ErrorCode:
        user = {
            "name": "alice", "mechanism": 1, "iterations": 4096,
            "salt": b"salt", "salted_password": b"p" * 32,
        }  # fmt: skip
        response = await self._send(
            node, "alter_user_scram_credentials", deletions=[], upsertions=[user]
        )
        return ErrorCode(response.results[0].error_code)

    async def remove_user(self, node: int) -> ErrorCode:
        user = {"name": "alice", "mechanism": 1}
        response = await self._send(
            node, "alter_user_scram_credentials", deletions=[user], upsertions=[]
        )
        return ErrorCode(response.results[0].error_code)

    async def _send(self, node: int, name: str, **fields: Any) -> Any:
        return await (await self._cluster.connection(node)).send(name, **fields)


async def at_once(*requests: Awaitable[ErrorCode]) -> list[ErrorCode]:
    async with asyncio.timeout(WITHIN_S):
        return await asyncio.gather(*requests)


def ids(nodes: Nodes, name: str) -> set[Any]:
    """The topic's id as every node knows it; None where it is unknown."""
    topics = (broker.topics.get(name) for broker in nodes.brokers.values())
    return {None if topic is None else topic.id for topic in topics}


def counts(nodes: Nodes) -> set[int]:
    """The partitions of `orders` as every node knows them."""
    topics = (broker.topics.get("orders") for broker in nodes.brokers.values())
    return {0 if topic is None else len(topic.partitions) for topic in topics}


async def agreed(nodes: Nodes, name: str) -> Any:
    """The topic's id, once all nodes know the same."""
    await known(lambda: len(ids(nodes, name)) == 1)
    (topic_id,) = ids(nodes, name)
    return topic_id


async def test_a_client_at_another_node_than_it_expects_starts_again(nodes: Nodes) -> None:
    """As after a rolling move of addresses (KIP-1242)."""
    bootstrap = ",".join(broker.bootstrap for broker in nodes.brokers.values())
    async with Cluster(ClientConfig(bootstrap=bootstrap)) as cluster:
        await cluster.metadata()
        first, second = cluster.brokers[1], cluster.brokers[2]
        cluster.brokers[1] = replace(first, port=second.port)
        connection = await cluster.connection(1)
        assert connection.address == first.address
        assert cluster.brokers[1] == first


async def test_one_of_several_creations_makes_the_topic(nodes: Nodes) -> None:
    async with Cluster(nodes.client) as cluster:
        await cluster.metadata(())
        requests = Requests(cluster)
        for at in range(examples(4)):
            codes = await at_once(*(requests.create(node, f"orders-{at}") for node in NODES))
            assert sorted(codes) == [ErrorCode.none, *[ErrorCode.topic_already_exists] * 2]
            codes = await at_once(
                *(requests.create_by_metadata(node, f"payments-{at}") for node in NODES)
            )
            # As in Kafka: it is known to the next request.
            assert set(codes) == {ErrorCode.unknown_topic_or_partition}
            for name in (f"orders-{at}", f"payments-{at}"):
                assert await agreed(nodes, name) is not None
                codes = await at_once(*(requests.delete(node, name) for node in NODES))
                gone = [ErrorCode.unknown_topic_or_partition] * 2
                assert sorted(codes) == [ErrorCode.none, *gone]
                assert await agreed(nodes, name) is None


async def test_a_deleted_topic_does_not_come_back(nodes: Nodes) -> None:
    random = Random(1)
    async with Cluster(nodes.client) as cluster:
        await cluster.metadata(())
        requests = Requests(cluster)
        for at in range(examples(6)):
            name = f"orders-{at}"
            assert await requests.create(1, name) is ErrorCode.none
            await agreed(nodes, name)
            one, two, three = random.sample(NODES, 3)
            deleted, *others = await at_once(
                requests.delete(one, name),
                requests.grow(two, name, 6),
                requests.grow(three, name, 4),
                requests.set_retention(two, name, 60_000),
                requests.set_retention(three, name, 70_000),
            )
            assert deleted is ErrorCode.none
            assert {*others} <= REFUSALS
            assert await agreed(nodes, name) is None


async def test_a_topic_does_not_shrink(nodes: Nodes) -> None:
    async with Cluster(nodes.client) as cluster:
        await cluster.metadata(())
        requests = Requests(cluster)
        assert await requests.create(1, "orders") is ErrorCode.none
        await agreed(nodes, "orders")
        count = 2
        for at in range(examples(4)):
            wanted = [count + 1 + (node + at) % 3 for node in NODES]
            codes = await at_once(
                *(requests.grow(*each) for each in zip(NODES, ["orders"] * 3, wanted, strict=True))
            )
            assert {*codes} <= {ErrorCode.none, ErrorCode.invalid_partitions}
            count = max(wanted)
            await known(lambda: counts(nodes) == {count})  # noqa: B023 - it is awaited at once


async def test_a_change_follows_those_that_another_node_has_told_to_be_done(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, idle = LeadershipLoop.work, asyncio.Event()

    async def work_elsewhere(self: LeadershipLoop) -> None:
        if self._registration.node_id == 2:
            idle.set()
        else:
            await work(self)

    monkeypatch.setattr(LeadershipLoop, "work", work_elsewhere)
    none = ErrorCode.none
    async with Cluster(nodes.client) as cluster, asyncio.timeout(WITHIN_S):
        await cluster.metadata(())
        await idle.wait()
        requests = Requests(cluster)
        assert await requests.create(1, "orders") is none
        assert await requests.set_retention(2, "orders", 60_000) is none
        assert await requests.create(1, "payments") is none
        assert await requests.grow(2, "payments", 4) is none
        assert await requests.create(1, "refunds") is none
        assert await requests.delete(2, "refunds") is none
        assert await requests.delete(1, "orders") is none
        assert await requests.create(2, "orders") is none

        assert await requests.create_acl(1) is none
        assert await requests.delete_acl(2) == 1
        assert await requests.create_acl(1) is none
        assert await requests.delete_acl(2) == 1

        assert await requests.set_quota(1, remove=False) is none
        assert await requests.set_quota(2, remove=True) is none
        assert await requests.set_quota(1, remove=False) is none
        assert await requests.set_quota(2, remove=True) is none

        assert await requests.add_user(1) is none
        assert await requests.remove_user(2) is none
        assert await requests.add_user(1) is none
        assert await requests.remove_user(2) is none

    monkeypatch.undo()
    quotas = [broker.controller.image.quotas for broker in nodes.brokers.values()]
    await known(lambda: not any(each.entities for each in quotas))
