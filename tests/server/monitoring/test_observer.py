"""What a server tells about itself, asked in the same process."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from docs.blocks import run_by
from kohort.client import ConsumerGroup
from kohort.cluster import LEASE_MS, NO_LEADER, Leader
from kohort.coordinator.journal import Cause, Rebalance
from kohort.errors import ErrorCode
from kohort.protocol.batches import Record, build
from kohort.protocol.subscription import Subscription, encode_subscription
from kohort.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.broker import Broker
from kohort.server.cluster.nodes import ClusterNodes
from kohort.server.config.config import Config
from kohort.server.config.security_configs import STANDARD_AUTHORIZER
from kohort.server.logging.formats import TextFormatter
from kohort.server.monitoring.observer import Observer
from kohort.server.supervisor.merged_metrics import RESTARTS, UP
from kohort.types import Timestamp, TopicPartition
from server.cluster.nodes_bench import SharedCluster
from server.net.bench import Peer
from waiting import until

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
REBALANCE = Rebalance(
    group="orders",
    generation=3,
    causes=(Cause("expired", "b-1", "worker-2"), Cause("left", "c-1", "", "going home")),
    outcome="stable",
    started=Timestamp(0),
    joined=Timestamp(120),
    ended=Timestamp(150),
    members=("a-1",),
    awaited=("d-1",),
)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    config = Config({"listeners": "127.0.0.1:0", "http.listen": "127.0.0.1:0", "storage": "memory"})
    async with Broker(config) as broker:
        await broker.groups.loaded()
        yield broker


@pytest.fixture
def observer(broker: Broker) -> Observer:
    return broker.observer


async def test_health_is_bad_while_groups_are_loaded() -> None:
    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as broker:
        if not broker.groups.is_loaded:
            answer = broker.observer.health("")
            assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
            assert "50 of 50 group partitions are loading" in json.loads(answer.body)["reasons"][0]
        await broker.groups.loaded()
        assert broker.observer.health("").status is HTTPStatus.OK


async def test_health_is_bad_when_the_directory_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "d"
    async with Broker(Config({"listeners": "127.0.0.1:0", "log.dir": str(data)})) as broker:
        await broker.groups.loaded()
        assert broker.observer.health("").status is HTTPStatus.OK
        data.rename(tmp_path / "elsewhere")
        assert broker.observer.health("").status is HTTPStatus.SERVICE_UNAVAILABLE
        (tmp_path / "elsewhere").rename(data)


async def test_a_server_alone_is_ready_when_all_is_loaded() -> None:
    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as broker:
        loaded = broker.groups.is_loaded and broker.transactions.is_loaded
        assert (broker.observer.ready("").status is HTTPStatus.OK) is loaded
        await broker.groups.loaded()
        await broker.transactions.loaded()
        assert broker.observer.ready("").status is HTTPStatus.OK
        assert broker.observer.ready_alone("").body == b'{"status": "ok"}\n'


async def test_a_node_shows_its_part_of_the_cluster() -> None:
    async with SharedCluster(2) as cluster:
        await until(lambda: all(len(each.nodes.ids) == 2 for each in cluster.brokers.values()))
        await cluster.leaders("__consumer_offsets")
        observer = cluster.brokers[1].observer
        await until_ready(observer)
        assert observer.health("").status is HTTPStatus.OK
        text = (await observer.metrics("")).body.decode().splitlines()
        for sample in (
            'kohort_partitions_led{purpose="groups"} 6.0',
            'kohort_partitions_led{purpose="transactions"} 6.0',
            'kohort_partitions_led{purpose="records"} 0.0',
            "kohort_cluster_nodes 2.0",
            "kohort_partitions_awaited 0.0",
            "kohort_partitions_taken_total 12.0",
            "kohort_partitions_given_up_total 0.0",
            "kohort_node_sessions_total 1.0",
            "kohort_database_away_seconds 0.0",
        ):
            assert sample in text


async def test_a_node_without_its_storage_is_neither_well_nor_ready() -> None:
    async with SharedCluster(1) as cluster:
        observer, storage = cluster.brokers[1].observer, cluster.storages[1]
        await until_ready(observer)
        storage.failure = OSError("nobody is there")
        await until(lambda: observer.health("").status is not HTTPStatus.OK)
        assert observer.ready("").status is HTTPStatus.OK  # others take nothing yet
        cluster.clock.ahead_ms += LEASE_MS
        for answer in (observer.ready(""), observer.health("")):
            assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
            away, lease = json.loads(answer.body)["reasons"][-2:]
            assert re.fullmatch(r"the database has .* for \d+ s: nobody is there", away)
            assert lease == "this node has no lease, and leads nothing"
        storage.failure = None
        await until_ready(observer)
        samples = (await observer.metrics("")).body.decode().splitlines()
        assert "kohort_database_away_seconds 0.0" in samples


async def test_a_node_without_a_lease_does_not_tell_that_there_are_no_groups() -> None:
    async with SharedCluster(1) as cluster:
        observer, storage = cluster.brokers[1].observer, cluster.storages[1]
        await until_ready(observer)
        await cluster.leaders("__consumer_offsets")
        peer = await cluster.peer(1)
        assert not (await peer.ask("join_group", 3, **join("g"))).error_code
        storage.failure = OSError("nobody is there")
        cluster.clock.ahead_ms += LEASE_MS
        stale = await observer.group("g")  # it is in memory yet
        await until(lambda: cluster.brokers[1].groups.group("g") is None)
        for answer in (stale, await observer.group("g")):
            assert answer.status is HTTPStatus.MISDIRECTED_REQUEST
            assert json.loads(answer.body)["coordinator"] == -1
        answer = await observer.groups("")
        assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
        assert "this node has no lease, and leads nothing" in json.loads(answer.body)["reasons"]
        listed = await peer.ask("list_groups", 4, states_filter=())
        assert listed.error_code is ErrorCode.coordinator_not_available
        storage.failure = None
        await until_ready(observer)
        await cluster.leaders("__consumer_offsets")
        (group,) = json.loads((await observer.groups("")).body)["groups"]
        assert group["group_id"] == "g"
        assert (await observer.group("nope")).status is HTTPStatus.NOT_FOUND


async def test_groups_are_not_listed_while_a_partition_has_no_leader() -> None:
    async with SharedCluster(2) as cluster:
        await until(lambda: len(cluster.brokers[1].nodes.ids) == 2)
        await cluster.leaders("__consumer_offsets")
        observer, groups = cluster.brokers[1].observer, cluster.brokers[1].groups
        assert (await observer.groups("")).status is HTTPStatus.OK
        for node, reason in ((NO_LEADER, "have no leader"), (1, "are yet to be taken")):
            leaders = [Leader(node, 1)] * 6
            with (
                patch.object(ClusterNodes, "leaders", return_value=leaders),
                patch.object(groups, "is_elsewhere", return_value=True),
            ):
                answer = await observer.groups("")
            assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
            assert json.loads(answer.body)["reasons"][0].startswith(f"6 group partitions {reason}")


async def test_any_node_shows_the_groups_of_all() -> None:
    async with SharedCluster(3, cluster_rebalance_delay_ms=0) as cluster:
        await until(lambda: len({*led(cluster)}) == 3)
        await cluster.leaders("__consumer_offsets")
        names = [f"g{number}" for number in range(12)]
        for name in names:
            node = coordinator(cluster, name)
            answer = await (await cluster.peer(node)).ask("join_group", 3, **join(name))
            assert not answer.error_code
        assert {coordinator(cluster, name) for name in names} == {1, 2, 3}
        for broker in cluster.brokers.values():
            told = json.loads((await broker.observer.groups("")).body)
            assert [each["group_id"] for each in told["groups"]] == sorted(names)
            assert {each["type"] for each in told["groups"]} == {"classic"}
            assert told["silent_nodes"] == []
        name = next(each for each in names if coordinator(cluster, each) == 2)
        assert (await cluster.brokers[2].observer.group(name)).status is HTTPStatus.OK
        answer = await cluster.brokers[1].observer.group(name)
        assert answer.status is HTTPStatus.MISDIRECTED_REQUEST
        assert json.loads(answer.body)["coordinator"] == 2


async def test_a_node_that_does_not_tell_its_groups_is_named() -> None:
    async with SharedCluster(2) as cluster:
        await until(lambda: len(cluster.brokers[1].nodes.ids) == 2)
        await until_ready(cluster.brokers[1].observer)
        await cluster.leaders("__consumer_offsets")
        await cluster.brokers[2].listener.close(0)
        told = json.loads((await cluster.brokers[1].observer.groups("")).body)
        assert told == {"groups": [], "silent_nodes": [2]}


def led(cluster: SharedCluster) -> Iterator[int]:
    """The leaders of the partitions of groups, as node 1 knows them."""
    topic = cluster.brokers[1].topics.get("__consumer_offsets")
    assert topic is not None
    return (leader.node for leader in cluster.brokers[1].nodes.leaders(topic))


def coordinator(cluster: SharedCluster, group: str) -> int:
    return cluster.brokers[1].nodes.coordinator("__consumer_offsets", group)


def join(group: str) -> dict[str, Any]:
    timeout = timedelta(seconds=60)
    return {
        "group_id": group, "session_timeout": timeout, "rebalance_timeout": timeout,
        "member_id": "", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip


async def until_ready(observer: Observer) -> None:
    await until(lambda: observer.ready("").status is HTTPStatus.OK)


async def test_a_rebalance_is_one_line_with_its_causes(
    observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="kohort.groups"):
        observer.on_rebalance(REBALANCE)
    (record,) = caplog.records
    assert TextFormatter().format(record).partition(": ")[2] == (
        "rebalance group=orders generation=3 outcome=stable members=1 join_ms=120 sync_ms=30 "
        'causes=["expired worker-2", "left c-1 (going home)"] awaited=["d-1"]'
    )


async def test_rebalances_are_counted_by_cause_and_phase(observer: Observer) -> None:
    observer.on_rebalance(REBALANCE)
    text = (await observer.metrics("")).body.decode()
    of_classic = 'kohort_rebalances_total{cause="expired",outcome="stable",type="classic"} 1.0'
    assert of_classic in text
    assert 'kohort_rebalance_seconds_bucket{le="0.25",phase="join"} 1.0' in text
    assert 'kohort_rebalance_seconds_sum{phase="sync"} 0.03' in text


async def test_the_documentation_lists_the_metrics(observer: Observer) -> None:
    types = re.findall(
        r"^# TYPE (kohort_\w+) (\w+)$", (await observer.metrics("")).body.decode(), re.MULTILINE
    )
    served = {name for name, _ in types}
    documented = set(re.findall(r"`(kohort_\w+)`", OPERATIONS.read_text(encoding="utf-8")))
    assert served | {UP, RESTARTS} == documented


def shape(value: Any) -> Any:
    """The names in a document; of a list those of its first item."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value)


SECOND_MEMBER: dict[str, Any] = {
    "group_id": "orders",
    "session_timeout_ms": 45_000,
    "rebalance_timeout_ms": 300_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [
        {"name": name, "metadata": encode_subscription(Subscription(topics=("flights",)))}
        for name in ("range", "cooperative-sticky")
    ],
}


async def test_a_stable_group_is_explained_by_its_state(broker: Broker) -> None:
    broker.controller.topics.create("flights", 3)
    async with ConsumerGroup("orders", topics=["flights"], bootstrap=str(broker.address)) as group:
        await anext(group)
        response = await broker.observer.explain_group("orders")
    assert json.loads(response.body) == {
        "group_id": "orders",
        "state": "Stable",
        "why": "",
        "awaited": [],
        "until": None,
    }
    assert (await broker.observer.explain_group("none")).status is HTTPStatus.NOT_FOUND


async def test_the_documents_of_the_documentation(broker: Broker) -> None:
    broker.controller.topics.create("flights", 3)
    of_all, of_one, of_why = (json.loads(block.code) for block in run_by(__file__))
    address = str(broker.address)
    async with ConsumerGroup("orders", topics=["flights"], bootstrap=address) as group:
        generation = await anext(group)
        await generation.commit({TopicPartition("flights", 0): 0})
        groups = json.loads((await broker.observer.groups("")).body)
        found = json.loads((await broker.observer.group("orders")).body)
        peer = Peer(*await asyncio.open_connection(*broker.address))
        joining = asyncio.create_task(peer.ask("join_group", 3, **SECOND_MEMBER))
        state = broker.groups.group("orders")
        await until(lambda: str(state.state) == of_why["state"])
        why = json.loads((await broker.observer.explain_group("orders")).body)
        joining.cancel()
        peer.leave()
    assert shape(why) == shape(of_why)
    assert why["state"] == of_why["state"]
    assert shape(groups) == shape(of_all)
    assert shape(found) == shape(of_one)


async def test_groups_as_json(observer: Observer) -> None:
    assert json.loads((await observer.groups("")).body) == {"groups": []}
    assert (await observer.group("none")).status is HTTPStatus.NOT_FOUND


@pytest.fixture
async def secured() -> AsyncIterator[Broker]:
    """A server with an authorizer, and two groups with offsets in two topics."""
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "http.principal": "User:dashboard",
    }
    async with Broker(Config(settings)) as broker:
        await broker.groups.loaded()
        for topic in ("shown", "hidden"):
            broker.controller.topics.create(topic, 1)
        peer = Peer(*await asyncio.open_connection(*broker.address))
        partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        for group in ("orders", "others"):
            await peer.ask(
                "offset_commit",
                7,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": name, "partitions": [partition]} for name in ("shown", "hidden")],
            )
        peer.leave()
        yield broker


def allow(broker: Broker, kind: ResourceType, name: str) -> None:
    """Let the principal of the HTTP port describe a resource."""
    pattern, describe, allowed = PatternType.LITERAL, AclOperation.DESCRIBE, AclPermissionType.ALLOW
    broker.controller.writer.commit(
        *broker.controller.acls.create_acls(
            [AclBinding(kind, name, pattern, "User:dashboard", "*", describe, allowed)]
        )
    )


async def test_groups_and_topics_are_named_to_who_may_describe_them(secured: Broker) -> None:
    observer = secured.observer

    async def groups() -> Any:
        return [one["group_id"] for one in json.loads((await observer.groups("")).body)["groups"]]

    async def labels() -> list[str]:
        text = (await observer.metrics("")).body.decode()
        return re.findall(r"kohort_group_lag\{(.*)\}", text)

    assert (await groups(), await labels()) == ([], [])
    assert (await observer.group("orders")).status is HTTPStatus.NOT_FOUND
    allow(secured, ResourceType.GROUP, "orders")
    assert (await groups(), await labels()) == (["orders"], [])
    assert json.loads((await observer.group("orders")).body)["offsets"] == []
    allow(secured, ResourceType.TOPIC, "shown")
    assert await labels() == ['group="orders",partition="0",topic="shown"']
    shown = json.loads((await observer.group("orders")).body)
    assert [one["topic"] for one in shown["offsets"]] == ["shown"]
    assert (await observer.group("others")).status is HTTPStatus.NOT_FOUND


async def test_near_names_are_of_what_is_shown(secured: Broker) -> None:
    observer = secured.observer

    async def errors() -> list[str]:
        found = await observer.group("ordres"), await observer.topic("shwon")
        assert {each.status for each in found} == {HTTPStatus.NOT_FOUND}
        return [json.loads(each.body)["error"] for each in found]

    hidden = ["no group 'ordres'; /groups lists them", "no topic 'shwon'; /topics lists them"]
    assert await errors() == hidden
    assert (await observer.topic("shown")).status is HTTPStatus.NOT_FOUND
    allow(secured, ResourceType.GROUP, "orders")
    allow(secured, ResourceType.TOPIC, "shown")
    assert await errors() == [
        f"{hidden[0]}; did you mean orders?",
        f"{hidden[1]}; did you mean shown?",
    ]
    told = json.loads((await observer.topic("shown")).body)
    assert told in json.loads((await observer.topics("")).body)["topics"]


async def test_groups_have_members_and_the_lag_of_topics_that_are_shown(secured: Broker) -> None:
    for topic, count in (("shown", 3), ("hidden", 4)):
        log = secured.topics.log(topic, 0)
        assert log is not None
        log.append(build([Record(None, b"")] * count), Timestamp(1))

    async def line() -> Any:
        (group,) = json.loads((await secured.observer.groups("")).body)["groups"]
        return group

    allow(secured, ResourceType.GROUP, "orders")
    assert await line() == {
        "group_id": "orders",
        "state": "Empty",
        "protocol_type": "",
        "type": "classic",
        "members": 0,
        "lag": 0,
        "lag_ms": None,
    }
    allow(secured, ResourceType.TOPIC, "shown")
    assert (await line())["lag"] == 3


async def test_topics_and_nodes(secured: Broker) -> None:
    observer = secured.observer
    assert json.loads((await observer.topics("")).body) == {"topics": []}
    assert (await observer.nodes("")).status is HTTPStatus.FORBIDDEN
    allow(secured, ResourceType.TOPIC, "shown")
    allow(secured, ResourceType.CLUSTER, CLUSTER_NAME)
    topic = secured.topics.get("shown")
    assert topic is not None
    assert json.loads((await observer.topics("")).body)["topics"] == [
        {
            "topic": "shown",
            "topic_id": str(topic.id),
            "internal": False,
            "leaders": [0],
            "configs": {},
        }
    ]
    assert json.loads((await observer.nodes("")).body) == {
        "cluster_id": secured.cluster_id,
        "nodes": [{"node_id": 0, "leads": 102}],
        "partitions_without_leader": 0,
    }


async def test_reasons_are_told_to_who_may_describe_the_cluster(tmp_path: Path) -> None:
    data = tmp_path / "d"
    settings = {
        "listeners": "127.0.0.1:0",
        "log.dir": str(data),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "http.principal": "User:dashboard",
    }
    async with Broker(Config(settings)) as broker:
        await broker.groups.loaded()
        told = []
        for _ in range(2):
            data.rename(tmp_path / "elsewhere")
            told.append(json.loads(broker.observer.health("").body))
            (tmp_path / "elsewhere").rename(data)
            allow(broker, ResourceType.CLUSTER, CLUSTER_NAME)
            await broker.controller.writer.durable()
    assert told[0] == {"status": "unavailable"}
    assert told[1]["reasons"]
