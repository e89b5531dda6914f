"""Workers: what one of them is asked, all know; transactions and groups span them."""

import asyncio
import json
import logging
import os
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import NODE_APIS
from kohort.server.cluster.internode import (
    MetadataFollower,
    NodeConnection,
    NodeUnreachableError,
    by_socket,
    log_offsets,
    remote_controller,
)
from kohort.server.config import ResourceType
from kohort.server.handlers.forwarding import FORWARDED
from server.cluster.workers_bench import COUNT, Crew
from server.net.bench import Peer

LAST = COUNT - 1
ORDERS = {"resource_type": 2, "resource_name": "orders"}
CHANGES: dict[str, tuple[int, dict[str, Any]]] = {
    "create_topics": (7, {"timeout_ms": 1_000, "topics": [
        {"name": "orders", "num_partitions": 6, "replication_factor": 2}]}),
    "create_partitions": (3, {"timeout_ms": 1_000, "topics": [
        {"name": "orders", "count": 9, "assignments": None}]}),
    "alter_configs": (1, {"resources": [
        {**ORDERS, "configs": [{"name": "retention.ms", "value": "1"}]}]}),
    "incremental_alter_configs": (1, {"resources": [
        {"resource_type": 4, "resource_name": str(LAST), "configs": [
            {"name": "log.retention.bytes", "config_operation": 0, "value": "4"}]}]}),
    "create_acls": (3, {"creations": [
        {**ORDERS, "resource_pattern_type": 3, "principal": "User:alice", "host": "*",
         "operation": 2, "permission_type": 3}]}),
    "alter_client_quotas": (1, {"entries": [
        {"entity": [{"entity_type": "user", "entity_name": "alice"}],
         "ops": [{"key": "producer_byte_rate", "value": 1.0}]}]}),
    "alter_user_scram_credentials": (0, {"upsertions": [
        {"name": "bob", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
    ]}),
    "delete_acls": (3, {"filters": [
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1,
         "permission_type": 1}]}),
    "delete_topics": (6, {"timeout_ms": 1_000, "topics": [{"name": "orders"}]}),
}  # fmt: skip
"""In this order, each changes something."""
WITH_ACLS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


async def test_a_follower_does_not_serve_the_metadata_log() -> None:
    async with Crew(2) as crew:
        first, other = (
            MetadataFollower(9, NodeConnection(by_socket(crew.socket_of(index))))
            for index in range(2)
        )
        with closing(first), closing(other):
            assert (await first.read(0)).records
            with pytest.raises(KafkaError) as refusal:
                await other.read(0)
        assert refusal.value.code is ErrorCode.not_leader_or_follower


async def test_workers_agree_on_leader_epochs() -> None:
    async with Crew(memory_restart_visible=True) as crew:
        asked = {"topics": [{"name": "__consumer_offsets"}]}
        told = [
            {
                each.partition_index: (each.leader_id, each.leader_epoch)
                for each in (await peer.ask("metadata", 12, **asked)).topics[0].partitions
            }
            for peer in [await crew.peer(index) for index in range(COUNT)]
        ]
        assert told == [told[0]] * COUNT


async def test_a_change_of_a_topic_is_logged_by_one_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kohort.topics")
    async with Crew() as crew:
        peer = await crew.peer(LAST)
        for api in ("create_topics", "create_partitions", "delete_topics"):
            version, fields = CHANGES[api]
            await peer.ask(api, version, **fields)
    assert [each.getMessage() for each in caplog.records if is_of_orders(each)] == [
        "created a topic", "added partitions to a topic", "deleted a topic"
    ]  # fmt: skip


def is_of_orders(line: logging.LogRecord) -> bool:
    return line.__dict__["kohort_fields"]["topic"] == "orders"


def test_every_change_is_forwarded() -> None:
    assert CHANGES.keys() == FORWARDED


async def test_a_change_by_one_worker_is_known_to_all_when_it_responds() -> None:
    async with Crew(**WITH_ACLS) as crew:
        peer = await crew.peer(LAST)
        for api, (version, fields) in CHANGES.items():
            answer = await peer.ask(api, version, **fields)
            assert error_of(answer) is ErrorCode.none, (api, answer)
            metadata = [broker.controller.metadata for broker in crew.brokers.values()]
            assert len({each.end_offset for each in metadata}) == 1, api
            assert len({repr(each.state) for each in metadata}) == 1, api
            if api == "create_partitions":
                check_leaders(crew, 9)
        assert crew.brokers[LAST].config["log.retention.bytes"] == 4
        assert crew.brokers[0].config["log.retention.bytes"] == -1
        assert crew.brokers[LAST].controller.image.scram_users.of("bob")
        configured = crew.brokers[1].controller.configuration.configured(ResourceType.BROKER)
        assert list(configured) == [str(LAST)]


def check_leaders(crew: Crew, partitions: int) -> None:
    """Every worker has the same leaders of "orders", and each has those logs."""
    found = []
    for node, broker in crew.brokers.items():
        topic = broker.topics.get("orders")
        assert topic is not None
        leaders = [leader.node for leader in broker._cluster.nodes.leaders(topic)]
        assert len(leaders) == partitions
        for leader, log in zip(leaders, topic.partitions, strict=True):
            assert (log.end_offset == 0) is (leader == node)
        found.append(leaders)
    assert found == [found[0]] * crew.count
    assert set(Counter(found[0]).values()) == {partitions // crew.count}


def error_of(answer: Any) -> ErrorCode:
    """The first error there is in an answer to one change."""
    parts = [answer]
    for name in ("topics", "responses", "results", "entries", "filter_results"):
        parts += getattr(answer, name, ())
    errors = (getattr(part, "error_code", ErrorCode.none) for part in parts)
    return next(filter(None, errors), ErrorCode.none)


@pytest.mark.parametrize("size", [20_000, 200_000, 2_000_000])
async def test_a_large_change_is_forwarded(size: int) -> None:
    creation = CHANGES["create_acls"][1]["creations"][0]
    acls = [
        creation | {"principal": f"User:{number}" + "x" * (size // 100)} for number in range(100)
    ]
    async with Crew(2, **WITH_ACLS) as crew:
        peer = await crew.peer(1)
        async with asyncio.timeout(60):
            answer = await peer.ask("create_acls", 3, creations=acls)
        assert not any(each.error_code for each in answer.results)
        assert len(answer.results) == 100


async def test_a_refusal_comes_back_as_it_is() -> None:
    async with Crew() as crew:
        peer = await crew.peer(1)
        answer = await peer.ask("delete_topics", 6, topics=[{"name": "nope"}], timeout_ms=1_000)
        assert answer.responses[0].error_code is ErrorCode.unknown_topic_or_partition
        topic = {"name": "t", "num_partitions": 1, "replication_factor": COUNT + 1}
        answer = await peer.ask("create_topics", 7, topics=[topic], timeout_ms=1_000)
        assert answer.topics[0].error_code is ErrorCode.invalid_replication_factor


async def test_the_controller_judges_the_client_of_the_other_worker() -> None:
    settings = WITH_ACLS | {"super_users": "User:admin"}
    async with Crew(**settings) as crew:
        peer = await crew.peer(1)
        version, fields = CHANGES["create_topics"]
        answer = await peer.ask("create_topics", version, **fields)
        assert answer.topics[0].error_code is ErrorCode.topic_authorization_failed


async def test_each_worker_is_the_node_of_its_own_id() -> None:
    """ApiVersions v5 at each, with the cluster and the node ids that any of them reports."""
    async with Crew(2) as crew:
        reported = await (await crew.peer(1)).ask("metadata", 12, topics=[])
        for broker in reported.brokers:
            index = broker.port - crew.port
            for node_id in range(2):
                answer = await (await crew.peer(index)).ask(
                    "api_versions",
                    5,
                    **_software(),
                    cluster_id=reported.cluster_id,
                    node_id=node_id,
                )
                is_expected = node_id == broker.node_id
                assert (answer.error_code is ErrorCode.none) is is_expected


async def test_levels_of_loggers_are_those_of_a_worker() -> None:
    async with Crew() as crew:
        peer = await crew.peer(1)
        change = {"name": "kohort.groups", "config_operation": 0, "value": "DEBUG"}
        wanted = {"resource_type": 8, "resource_name": "1", "configs": [change]}
        answer = await peer.ask("incremental_alter_configs", 1, resources=[wanted])
        assert answer.responses[0].error_code is ErrorCode.none
        wanted = wanted | {"resource_name": "0"}
        answer = await peer.ask("incremental_alter_configs", 1, resources=[wanted])
        assert answer.responses[0].error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("api_key", NODE_APIS)
async def test_clients_cannot_send_what_nodes_send(api_key: int) -> None:
    async with Crew(2) as crew:
        for index in range(2):
            peer = await crew.peer(index)
            header = api_key.to_bytes(2, "big") + bytes(2) + bytes(4) + b"\xff\xff" + b"\0"
            content = header + b"\x01\0\x01\0" + bytes(20)
            peer.send(len(content).to_bytes(4, "big") + content)
            assert await peer.closed() == b""


async def test_no_producer_id_is_given_twice() -> None:
    async with Crew() as crew:
        peers = [await crew.peer(index) for index in range(COUNT)]
        given = [
            (await peer.ask("init_producer_id", 4, transactional_id=None)).producer_id
            for peer in peers * 200
        ]
        assert len(set(given)) == len(given)


async def test_records_groups_and_transactions_span_the_workers() -> None:
    names = [f"t{number}" for number in range(5)]
    async with Crew() as crew:
        producer = AIOKafkaProducer(bootstrap_servers=crew.address)
        async with producer:
            for name in names * 4:
                await producer.send_and_wait(name, b"plain")
        producer = AIOKafkaProducer(bootstrap_servers=crew.address, transactional_id="id")
        async with producer:
            for value in (b"first", b"second"):
                async with producer.transaction():
                    for name in names:
                        await producer.send(name, value)
                    place = TopicPartition("t0", 0)
                    await producer.send_offsets_to_transaction({place: len(value)}, "in-it")
            await producer.begin_transaction()
            for name in names:
                await producer.send(name, b"aborted")
            await producer.abort_transaction()
        consumer = AIOKafkaConsumer(
            *names,
            bootstrap_servers=crew.address,
            group_id="g",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with consumer:
            found: Counter[tuple[str, bytes]] = Counter()
            async with asyncio.timeout(60):
                while found.total() < 6 * len(names):
                    record = await consumer.getone()
                    found[record.topic, record.value] += 1
            await consumer.commit()
        for name in names:
            assert found[name, b"plain"] == 4
            assert found[name, b"first"] == found[name, b"second"] == 1
        leaders = {
            leader.node
            for name in names
            for topic in (crew.brokers[0].topics.get(name),)
            if topic is not None
            for leader in crew.brokers[0]._cluster.nodes.leaders(topic)
        }
        assert len(leaders) > 1


async def test_a_worker_serves_on_while_the_controller_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_controller, "RETRY_TIMEOUT_S", 0.2)
    async with Crew(2) as crew:
        peer = await crew.peer(1)
        version, fields = CHANGES["create_topics"]
        await peer.ask("create_topics", version, **fields)
        await crew.stop(0)
        answer = await peer.ask("metadata", 12, topics=[{"name": "orders"}])
        assert len(answer.topics[0].partitions) == 6
        other = await crew.peer(1)
        version, fields = CHANGES["create_partitions"]
        other.send(other.request("create_partitions", version, **fields))
        assert (await peer.ask("api_versions", 3, **_software())).error_code is ErrorCode.none
        assert await other.closed() == b""


async def test_a_worker_that_starts_again_sets_no_partition_aside(tmp_path: Path) -> None:
    """What it has to know is longer than one response of the controller."""
    fields = CHANGES["create_acls"][1]["creations"][0]
    acls = [fields | {"principal": f"User:{number}" + "x" * 20_000} for number in range(60)]
    async with Crew(2, **WITH_ACLS) as crew:
        await crew.stop(1)
        crew.store(1, tmp_path)
        await crew.start(1)
        peer = await crew.peer(0)
        assert not error_of(await peer.ask("create_acls", 3, creations=acls))
        version, fields = CHANGES["create_topics"]
        assert not error_of(await peer.ask("create_topics", version, **fields))
        logs = crew.brokers[1].logs
        async with asyncio.timeout(30):
            while "orders" not in {each.topic for each in logs.names()}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        before = set(logs.names())
        await crew.stop(1)
        broker = await crew.start(1)
        assert set(broker.logs.names()) == before


async def change(peer: Peer, api: str) -> None:
    version, fields = CHANGES[api]
    assert not error_of(await peer.ask(api, version, **fields))


async def test_a_topic_is_recreated_while_a_worker_is_away(tmp_path: Path) -> None:
    async with Crew(2) as crew:
        await crew.stop(1)
        crew.store(1, tmp_path)
        await crew.start(1)
        peer = await crew.peer(0)
        await change(peer, "create_topics")
        async with AIOKafkaProducer(bootstrap_servers=crew.address) as producer:
            await producer.send_and_wait("orders", b"old", partition=1)
        await crew.stop(1)
        await change(peer, "delete_topics")
        await change(peer, "create_topics")
        broker = await crew.start(1)
        assert not broker.logs.problems.texts(9)
        log = broker.topics.log("orders", 1)
        assert log is not None
        assert log.end_offset == 0
        assert sum(name.startswith("orders-1.") for name in os.listdir(tmp_path)) == 1, "stray"


async def test_a_worker_ends_that_knows_more_than_the_controller() -> None:
    async with Crew(2) as crew:
        peer = await crew.peer(1)
        version, fields = CHANGES["create_topics"]
        await peer.ask("create_topics", version, **fields)
        assert not crew.brokers[1].lost.is_set()
        await crew.stop(0)
        await crew.start(0)  # in memory: it has logged less
        async with asyncio.timeout(30):
            await crew.brokers[1].lost.wait()


async def test_lag_is_known_of_partitions_of_all_workers() -> None:
    async with Crew(is_observed=True) as crew:
        peer = await crew.peer(0)
        version, fields = CHANGES["create_topics"]
        await peer.ask("create_topics", version, **fields)
        places = [TopicPartition("orders", number) for number in range(6)]
        async with AIOKafkaProducer(bootstrap_servers=crew.address) as producer:
            for place in places:
                for _ in range(5):
                    await producer.send_and_wait(*place[:1], b"v", partition=place.partition)
        consumer = AIOKafkaConsumer(bootstrap_servers=crew.address, group_id="g")
        async with consumer:
            consumer.assign(places)
            await consumer.commit(dict.fromkeys(places, 2))
        shown = []
        for broker in crew.brokers.values():
            if broker.groups.group("g") is not None:
                response = await broker.observer.group("g")
                shown = [each["lag"] for each in json.loads(response.body)["offsets"]]
                text = (await broker.observer.metrics("")).body.decode()
                assert text.count('kohort_group_lag{group="g",') == 6
        assert shown == [3] * 6


async def test_lag_is_shown_while_another_worker_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_offsets, "RESPONSE_TIMEOUT_S", 0.1)
    async with Crew(2) as crew:
        peer = await crew.peer(0)
        version, fields = CHANGES["create_topics"]
        await peer.ask("create_topics", version, **fields)
        places = [TopicPartition("orders", number) for number in range(6)]
        async with AIOKafkaConsumer(bootstrap_servers=crew.address, group_id="g") as consumer:
            consumer.assign(places)
            await consumer.commit(dict.fromkeys(places, 0))
        (shows,) = (each for each, broker in crew.brokers.items() if broker.groups.group("g"))
        await crew.hang(1 - shows)
        observer = crew.brokers[shows].observer
        async with asyncio.timeout(60):
            response = await observer.group("g")
            metrics = await observer.metrics("")
        assert {each["lag"] for each in json.loads(response.body)["offsets"]} == {0, None}
        assert b'kohort_group_lag{group="g",' in metrics.body


async def test_a_node_that_does_not_respond_is_given_up(tmp_path: Path) -> None:
    accepted: list[asyncio.StreamWriter] = []
    responds = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        while responds and (size := int.from_bytes(await reader.readexactly(4), "big")):
            request = await reader.readexactly(size)
            answer = request[4:8] + bytes(1) + bytes(4) + bytes(2) + (7).to_bytes(8, "big")
            answer += (1).to_bytes(4, "big") + bytes(1)
            writer.write(len(answer).to_bytes(4, "big") + answer)

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    connection = NodeConnection(by_socket(str(tmp_path / "s")), timeout_s=0.05)
    asking = [
        asyncio.create_task(connection.ask(67, 0, broker_id=1, broker_epoch=-1)) for _ in range(3)
    ]
    done, _ = await asyncio.wait(asking)
    assert [type(each.exception()) for each in done] == [NodeUnreachableError] * 3
    assert len(accepted) == 1
    responds = True
    patient = NodeConnection(by_socket(str(tmp_path / "s")))
    assert (await patient.ask(67, 0, broker_id=1, broker_epoch=-1)).producer_id_start == 7
    patient.close()
    connection.close()
    server.close()
    for writer in accepted:
        writer.close()


def _software() -> dict[str, str]:
    return {"client_software_name": "test", "client_software_version": "1"}
