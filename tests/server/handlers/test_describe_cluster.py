"""DescribeCluster v0-2, DescribeTopicPartitions v0 and ListPartitionReassignments v0."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from server.handlers.bench import HandlerBench

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_with_its_brokers(bench: HandlerBench, version: int) -> None:
    response = await bench.ask("describe_cluster", version, endpoint_type=1)
    assert (response.error_code, response.cluster_id, response.controller_id) == (
        ErrorCode.none,
        bench.controller.image.cluster_id,
        0,
    )
    assert [
        (broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers
    ] == [(0, "broker.test", 9092, None)]
    assert response.cluster_authorized_operations == NOT_ASKED
    response = await bench.ask(
        "describe_cluster", version, endpoint_type=1, include_cluster_authorized_operations=True
    )
    assert response.cluster_authorized_operations == 8096
    if version >= 1:
        assert response.endpoint_type == 1
    if version >= 2:
        assert not response.brokers[0].is_fenced


@pytest.mark.parametrize("version", range(3))
async def test_the_rack_of_the_broker(version: int) -> None:
    bench = HandlerBench(broker_rack="r1")
    response = await bench.ask("describe_cluster", version, endpoint_type=1)
    assert [broker.rack for broker in response.brokers] == ["r1"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            2,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        ),
        (3, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 3"),
    ],
)
async def test_other_endpoint_types_are_refused(
    bench: HandlerBench, version: int, wanted: int, code: ErrorCode, message: str
) -> None:
    response = await bench.ask("describe_cluster", version, endpoint_type=wanted)
    assert (response.error_code, response.error_message) == (code, message)
    assert (
        response.cluster_id,
        response.controller_id,
        response.brokers,
        response.endpoint_type,
    ) == (
        "",
        -1,
        (),
        1,
    )


async def test_no_partition_is_ever_listed_as_reassigned(bench: HandlerBench, topic: str) -> None:
    for topics in (None, (), [{"name": topic, "partition_indexes": [0, 9]}], [{"name": "nope"}]):
        response = await bench.ask(
            "list_partition_reassignments", 0, topics=topics, timeout_ms=1_000
        )
        assert (response.error_code, response.error_message, response.topics) == (
            ErrorCode.none,
            None,
            (),
        )


Cursor = tuple[str, int] | None


class TestDescribeTopicPartitions:
    @pytest.fixture(autouse=True)
    def topics(self, bench: HandlerBench) -> None:
        bench.controller.topics.create("u", 5)
        bench.controller.topics.create("uv", 2)
        bench.controller.topics.create("a", 1)

    async def ask(
        self, bench: HandlerBench, *names: str, limit: int = 2_000, cursor: Cursor = None
    ) -> Any:
        asked = {"topic_name": cursor[0], "partition_index": cursor[1]} if cursor else None
        topics = [{"name": name} for name in names]
        return await bench.ask(
            "describe_topic_partitions",
            0,
            topics=topics,
            response_partition_limit=limit,
            cursor=asked,
        )

    async def page(
        self, bench: HandlerBench, *names: str, **how: Any
    ) -> tuple[dict[str, list[int]], Cursor]:
        response = await self.ask(bench, *names, **how)
        following = response.next_cursor
        return (
            {
                topic.name: [partition.partition_index for partition in topic.partitions]
                for topic in response.topics
            },
            following and (following.topic_name, following.partition_index),
        )

    async def test_a_topic_is_described_with_leader_and_replicas(self, bench: HandlerBench) -> None:
        (topic,) = (await self.ask(bench, "a")).topics
        assert (topic.error_code, topic.name, topic.is_internal) == (ErrorCode.none, "a", False)
        assert topic.topic_id == bench.topics.get("a").id  # type: ignore[union-attr]
        assert topic.topic_authorized_operations == 3576
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
            ErrorCode.none,
            0,
            0,
        )
        assert partition.replica_nodes == partition.isr_nodes == (0,)
        assert (
            partition.eligible_leader_replicas
            == partition.last_known_elr
            == partition.offline_replicas
            == ()
        )

    async def test_unknown_and_invalid_topics_get_their_errors(self, bench: HandlerBench) -> None:
        response = await self.ask(bench, "u", "nope", "bad name")
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("bad name", ErrorCode.invalid_topic_exception),
            ("nope", ErrorCode.unknown_topic_or_partition),
            ("u", ErrorCode.none),
        ]
        assert {topic.topic_authorized_operations for topic in response.topics} == {3576}

    async def test_each_once_in_the_order_of_names(self, bench: HandlerBench) -> None:
        pages = {"a": [0], "u": [0, 1, 2, 3, 4], "uv": [0, 1]}
        assert await self.page(bench, "uv", "a", "uv", "u") == (pages, None)
        assert await self.page(bench) == (pages, None)

    async def test_partitions_are_described_in_pages(self, bench: HandlerBench) -> None:
        assert await self.page(bench, "u", "uv", limit=3) == ({"u": [0, 1, 2]}, ("u", 3))
        assert await self.page(bench, "u", "uv", limit=3, cursor=("u", 3)) == (
            {"u": [3, 4], "uv": [0]},
            ("uv", 1),
        )
        assert await self.page(bench, "u", "uv", limit=3, cursor=("uv", 1)) == ({"uv": [1]}, None)
        assert await self.page(bench, "u", "uv", limit=5) == ({"u": [0, 1, 2, 3, 4]}, ("uv", 0))
        assert await self.page(bench, "u", limit=5) == ({"u": [0, 1, 2, 3, 4]}, None)
        assert await self.page(bench, limit=2) == ({"a": [0], "u": [0]}, ("u", 1))

    async def test_a_page_has_one_partition_at_least_and_two_thousand_at_most(
        self, bench: HandlerBench
    ) -> None:
        for limit in (0, -1):
            assert await self.page(bench, "u", limit=limit) == ({"u": [0]}, ("u", 1))
        bench.controller.topics.create("large", 2_001)
        pages, following = await self.page(bench, "large", limit=5_000)
        assert (len(pages["large"]), following) == (2_000, ("large", 2_000))

    async def test_a_cursor_of_no_described_partition_is_refused(self, bench: HandlerBench) -> None:
        assert await self.page(bench, "u", cursor=("u", 9)) == ({"u": []}, None)
        assert await self.page(bench, cursor=("b", 3)) == (
            {"u": [0, 1, 2, 3, 4], "uv": [0, 1]},
            None,
        )
        for cursor in (("nope", 0), ("zzz", 0), ("u", -1)):
            response = await self.ask(bench, "u", "uv", cursor=cursor)
            assert [
                (topic.name, topic.error_code, topic.partitions) for topic in response.topics
            ] == [
                ("u", ErrorCode.invalid_request, ()),
                ("uv", ErrorCode.invalid_request, ()),
            ]
