"""Metadata v0-13."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.server.controller import NewPartitions, NewTopic
from server.handlers.bench import HandlerBench
from server.identities import ENDPOINT
from server.topic_deletion import delete_topic

ALL = range(14)
UNKNOWN = ErrorCode.unknown_topic_or_partition


def by_name(answer: Any) -> dict[str, Any]:
    return {topic.name: topic for topic in answer.topics}


@pytest.mark.parametrize("version", ALL[1:])
async def test_the_rack_of_the_broker(version: int) -> None:
    response = await HandlerBench(broker_rack="r1").ask("metadata", version, topics=[])
    assert [broker.rack for broker in response.brokers] == ["r1"]


@pytest.mark.parametrize("version", ALL)
async def test_a_topic_is_described_with_partitions_and_leaders(
    bench: HandlerBench, topic: str, version: int
) -> None:
    response = await bench.ask("metadata", version, topics=[{"name": topic}])
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (0, "broker.test", 9092)
    (found,) = response.topics
    assert (found.error_code, found.name) == (ErrorCode.none, topic)
    assert [partition.partition_index for partition in found.partitions] == [0, 1, 2]
    for each in found.partitions:
        assert (each.error_code, each.leader_id) == (ErrorCode.none, 0)
        assert each.replica_nodes == each.isr_nodes == (0,)
        assert getattr(each, "leader_epoch", 0) == 0
        assert getattr(each, "offline_replicas", ()) == ()
    if version >= 1:
        assert response.controller_id == 0
        assert not found.is_internal
    if version >= 2:
        assert response.cluster_id == bench.controller.image.cluster_id
    if version >= 10:
        assert found.topic_id == bench.topics.get(topic).id  # type: ignore[union-attr]


async def test_the_broker_has_the_address_of_the_listener_that_is_asked(
    bench: HandlerBench, topic: str
) -> None:
    bench.controller.topics.create("__consumer_offsets", 1, internal=True)
    outside = replace(ENDPOINT, listener="OUTSIDE", host="outside.test", port=19092)
    for endpoint in (ENDPOINT, outside, ENDPOINT):
        bench.peer = replace(bench.peer, endpoint=endpoint)
        for api, fields in (
            ("metadata", {"topics": [{"name": topic}]}),
            ("describe_cluster", {"endpoint_type": 1}),
            ("find_coordinator", {"coordinator_keys": ["g"]}),
        ):
            response = await bench.ask(api, BY_NAME[api].max_version, **fields)
            (node,) = response.coordinators if api == "find_coordinator" else response.brokers
            assert (node.host, node.port) == (endpoint.host, endpoint.port)


async def test_all_topics_are_described_by_null(bench: HandlerBench) -> None:
    bench.controller.topics.create("a", 1)
    bench.controller.topics.create("__consumer_offsets", 1, internal=True)
    for version, everything in ((0, ()), (1, None), (12, None)):
        response = await bench.ask("metadata", version, topics=everything)
        assert set(by_name(response)) == {"a", "__consumer_offsets"}
    assert by_name(response)["__consumer_offsets"].is_internal
    assert (await bench.ask("metadata", 1, topics=())).topics == ()


@pytest.mark.parametrize("version", ALL)
async def test_a_missing_topic_is_created_and_told_the_next_time(
    bench: HandlerBench, version: int
) -> None:
    for code in (UNKNOWN, ErrorCode.none):
        response = await bench.ask(
            "metadata", version, topics=[{"name": "new"}], allow_auto_topic_creation=True
        )
        assert by_name(response)["new"].error_code is code
    bench.fill("new")
    bench.restart()
    assert bench.topics.get("new") is not None


async def test_a_topic_that_others_create_and_delete_meanwhile_is_unknown(
    bench: HandlerBench,
) -> None:
    """Kafka's Metadata never says TOPIC_ALREADY_EXISTS, which no client retries."""
    creating = asyncio.ensure_future(bench.controller.topics.create_topics([NewTopic("new", 1)]))
    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    exchange, task = bench.begin("metadata", 12, **asked)
    assert task is not None
    _, deleting = bench.begin("delete_topics", 5, topic_names=["new"], timeout_ms=5_000)
    assert deleting is not None
    await asyncio.gather(creating, task, deleting)
    assert by_name(exchange.outcome)["new"].error_code is UNKNOWN
    for code in (UNKNOWN, ErrorCode.none):
        response = await bench.ask("metadata", 12, **asked)
        assert by_name(response)["new"].error_code is code


async def test_the_number_of_partitions_of_a_created_topic_is_the_brokers() -> None:
    bench = HandlerBench(num_partitions=4)
    await bench.ask("metadata", 12, topics=[{"name": "new"}], allow_auto_topic_creation=True)
    assert len(bench.topics.get("new").partitions) == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [4, 9, 13])
async def test_the_client_may_forbid_creation(bench: HandlerBench, version: int) -> None:
    response = await bench.ask(
        "metadata", version, topics=[{"name": "new"}], allow_auto_topic_creation=False
    )
    assert by_name(response)["new"].error_code is UNKNOWN
    assert bench.topics.get("new") is None


async def test_the_broker_may_forbid_creation() -> None:
    bench = HandlerBench(auto_create_topics_enable=False)
    response = await bench.ask("metadata", 3, topics=[{"name": "new"}])
    assert by_name(response)["new"].error_code is UNKNOWN


async def test_internal_topics_are_never_created_on_the_way(bench: HandlerBench) -> None:
    response = await bench.ask(
        "metadata", 9, topics=[{"name": "__transaction_state"}], allow_auto_topic_creation=True
    )
    (found,) = response.topics
    assert (found.error_code, found.is_internal, found.partitions) == (UNKNOWN, True, ())
    assert list(bench.topics.all()) == []


@pytest.mark.parametrize("allowed", [True, False])
async def test_names_that_no_topic_can_have(bench: HandlerBench, allowed: bool) -> None:
    bench.controller.topics.create("a.b", 1)
    wanted = [{"name": name} for name in ("bad name", "", "a.b", "a.b", "a_b")]
    response = await bench.ask("metadata", 12, topics=wanted, allow_auto_topic_creation=allowed)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("bad name", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
        ("a.b", ErrorCode.none),
        ("a_b", ErrorCode.invalid_topic_exception if allowed else UNKNOWN),
    ]


@pytest.mark.parametrize("version", [12, 13])
async def test_topics_are_described_by_id(bench: HandlerBench, topic: str, version: int) -> None:
    topic_id, unknown = bench.topics.get(topic).id, uuid4()  # type: ignore[union-attr]
    wanted = [
        {"topic_id": topic_id, "name": None},
        {"topic_id": unknown, "name": "x"},
        {"topic_id": None, "name": "never-looked-at"},
    ]
    response = await bench.ask(
        "metadata", version, topics=wanted, include_topic_authorized_operations=True
    )
    assert [(each.error_code, each.name, each.topic_id) for each in response.topics] == [
        (ErrorCode.none, topic, topic_id),
        (ErrorCode.unknown_topic_id, None, unknown),
    ]
    assert [each.topic_authorized_operations for each in response.topics] == [3576, -(2**31)]
    assert bench.topics.get("never-looked-at") is None


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    ("topic_id", "name"), [(UUID(int=7), None), (UUID(int=7), "a"), (None, None)]
)
async def test_ids_before_v12_are_refused(
    bench: HandlerBench, version: int, topic_id: UUID | None, name: str | None
) -> None:
    response = await bench.ask("metadata", version, topics=[{"topic_id": topic_id, "name": name}])
    assert (response.brokers, response.controller_id, response.cluster_id) == ((), -1, None)
    (found,) = response.topics
    assert (found.error_code, found.name, found.topic_id) == (
        ErrorCode.invalid_request,
        name or "",
        topic_id,
    )


async def test_neither_name_nor_id(bench: HandlerBench) -> None:
    response = await bench.ask("metadata", 13, topics=[{"topic_id": None, "name": None}])
    assert response.error_code is ErrorCode.invalid_request


async def test_authorized_operations_are_included_on_request(
    bench: HandlerBench, topic: str
) -> None:
    asked = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    wanted = [{"name": topic}, {"name": "nope"}]
    response = await bench.ask(
        "metadata", 8, topics=wanted, allow_auto_topic_creation=False, **asked
    )
    assert response.cluster_authorized_operations == 8096
    assert [each.topic_authorized_operations for each in response.topics] == [3576, 3576]
    response = await bench.ask("metadata", 8, topics=wanted, allow_auto_topic_creation=False)
    assert response.cluster_authorized_operations == -(2**31)
    assert [each.topic_authorized_operations for each in response.topics] == [-(2**31), -(2**31)]


async def test_an_answer_is_encoded_once_until_a_topic_changes(
    bench: HandlerBench, topic: str
) -> None:
    async def packed() -> bytes | None:
        exchange, _ = bench.begin("metadata", 12, topics=None)
        return exchange.packed

    first = await packed()
    assert await packed() == first
    await bench.controller.topics.create_partitions([NewPartitions(topic, 4)])
    second = await packed()
    assert second != first
    delete_topic(bench.controller, topic)
    third = await packed()
    assert third not in (first, second)
    bench.controller.topics.create(topic, 3)
    assert await packed() not in (first, second, third)


async def test_unknown_names_are_not_remembered(bench: HandlerBench) -> None:
    for number in range(100):
        await bench.ask(
            "metadata", 9, topics=[{"name": f"t{number}"}], allow_auto_topic_creation=False
        )
    assert len(bench.topics.responses) == 0


async def test_remembered_answers_are_bounded(bench: HandlerBench) -> None:
    for number in range(100):
        await bench.ask(
            "metadata", 9, topics=[{"name": f"t{number}"}], allow_auto_topic_creation=True
        )
    for number in range(100):
        await bench.ask("metadata", 9, topics=[{"name": f"t{number}"}])
    assert len(bench.topics.responses) == 64


async def test_a_request_that_names_a_topic_many_times_is_not_kept(
    bench: HandlerBench, topic: str
) -> None:
    for count in (1, 10_000):
        response = await bench.ask(
            "metadata", 12, topics=[{"name": topic}] * count, allow_auto_topic_creation=False
        )
        assert list(by_name(response)) == [topic]
        assert len(bench.topics.responses) == 1


@pytest.mark.parametrize("version", range(13))
async def test_very_many_topics_are_described_as_few_are(bench: HandlerBench, version: int) -> None:
    names = [f"t{n:03}" for n in range(250)]
    for name in names:
        bench.controller.topics.create(name, 2)
    asked: list[dict[str, str | None]] = [{"name": name} for name in [*names, "missing"]]
    if version >= 10:
        asked = [each | {"topic_id": None} for each in asked]
    fields = {"allow_auto_topic_creation": False} if version >= 4 else {}
    if version < 4:
        asked.pop()
    many = await bench.ask("metadata", version, topics=asked, **fields)
    few = [
        topic
        for n in range(0, len(asked), 50)
        for topic in (
            await bench.ask("metadata", version, topics=asked[n : n + 50], **fields)
        ).topics
    ]
    assert list(many.topics) == few
    assert await bench.ask("metadata", version, topics=asked, **fields) == many
