"""CreateTopics v2-7. Codes and texts are those of Kafka 4.4."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.server.config.topic_table import TOPIC_CONFIGS
from server.handlers.bench import HandlerBench

Assignments = list[tuple[int, list[int]]]


def wanted(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: Assignments | None = None,
    **configs: str | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [
            {"partition_index": index, "broker_ids": ids} for index, ids in assignments or ()
        ],
        "configs": [
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ],
    }


async def create(
    bench: HandlerBench, *topics: dict[str, Any], version: int = 7, **fields: Any
) -> list[Any]:
    fields = {"timeout_ms": 5_000} | fields
    return list((await bench.ask("create_topics", version, topics=topics, **fields)).topics)


async def refused(bench: HandlerBench, topic: dict[str, Any]) -> tuple[ErrorCode, str | None]:
    (result,) = await create(bench, topic)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())
    assert result.topic_id is None
    assert bench.topics.get(topic["name"]) is None
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_created_topic_has_its_partitions_and_configs(
    bench: HandlerBench, version: int
) -> None:
    (result,) = await create(bench, wanted("orders", 3, retention_ms=" 7 "), version=version)
    assert (result.name, result.error_code, result.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    topic = bench.topics.get("orders")
    assert topic is not None
    assert len(topic.partitions) == 3
    assert topic.partitions[0].config.retention_ms == 7
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert [config.name for config in result.configs] == sorted(TOPIC_CONFIGS)
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == (" 7 ", 1)
        assert shown["max.message.bytes"] == ("1048588", 5)
        assert not any(config.read_only or config.is_sensitive for config in result.configs)
    if version >= 7:
        assert result.topic_id == topic.id
    bench.restart()
    assert bench.topics.get("orders") is not None


async def test_a_topic_without_numbers_gets_the_default_of_the_broker() -> None:
    bench = HandlerBench(num_partitions=4)
    (result,) = await create(bench, wanted("orders", -1, -1))
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 4)


async def test_a_validated_topic_is_not_created(bench: HandlerBench) -> None:
    (result,) = await create(bench, wanted("orders", 3, retention_ms="7"), validate_only=True)
    assert (result.error_code, result.num_partitions, len(result.configs)) == (
        ErrorCode.none,
        3,
        37,
    )
    assert result.topic_id is not None
    assert bench.topics.get("orders") is None
    (result,) = await create(bench, wanted("orders", retention_ms="x"), validate_only=True)
    assert result.error_code is ErrorCode.invalid_config


async def test_a_refused_topic_does_not_stop_the_others(bench: HandlerBench) -> None:
    results = await create(
        bench, wanted("a"), wanted("b c"), wanted("d"), wanted("e"), wanted("e", 2)
    )
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("a", ErrorCode.none, None),
        (
            "b c",
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: 'b c' contains one or more characters other than "
            "ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        ("d", ErrorCode.none, None),
        ("e", ErrorCode.invalid_request, "Duplicate topic name."),
    ]
    assert {topic.name for topic in bench.topics.all()} == {"a", "d"}


async def test_a_request_without_topics_creates_nothing(bench: HandlerBench) -> None:
    assert await create(bench) == []


async def test_the_time_is_up(bench: HandlerBench) -> None:
    (result,) = await create(bench, wanted("a"), timeout_ms=0)
    assert (result.error_code, result.error_message) == (ErrorCode.request_timed_out, None)
    assert bench.topics.get("a") is None


async def test_an_existing_or_colliding_name_is_refused(bench: HandlerBench) -> None:
    await create(bench, wanted("a.b"))
    (result,) = await create(bench, wanted("a.b"))
    assert (result.error_code, result.error_message) == (
        ErrorCode.topic_already_exists,
        "Topic 'a.b' already exists.",
    )
    assert await refused(bench, wanted("a_b")) == (
        ErrorCode.invalid_topic_exception,
        "Topic 'a_b' collides with existing topic: a.b",
    )


async def test_the_metadata_log(bench: HandlerBench) -> None:
    assert await refused(bench, wanted("__cluster_metadata")) == (
        ErrorCode.invalid_request,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


NOT_POSITIVE = "Number of partitions was set to an invalid non-positive value."
BAD_FACTOR = "Replication factor must be larger than 0, or -1 to use the default value."


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "message"),
    [
        (0, 1, ErrorCode.invalid_partitions, NOT_POSITIVE),
        (-2, 1, ErrorCode.invalid_partitions, NOT_POSITIVE),
        (0, 3, ErrorCode.invalid_partitions, NOT_POSITIVE),
        (1, 0, ErrorCode.invalid_replication_factor, BAD_FACTOR),
        (1, -2, ErrorCode.invalid_replication_factor, BAD_FACTOR),
        (
            1,
            2,
            ErrorCode.invalid_replication_factor,
            "Unable to replicate the partition 2 time(s): The target replication factor "
            "of 2 cannot be reached "
            "because only 1 broker(s) are registered.",
        ),
        (
            2**31 - 1,
            1,
            ErrorCode.policy_violation,
            "Excessively large number of partitions per request.",
        ),
    ],
)
async def test_invalid_numbers_of_partitions_and_replicas_are_refused(
    bench: HandlerBench, partitions: int, factor: int, code: ErrorCode, message: str
) -> None:
    assert await refused(bench, wanted("a", partitions, factor)) == (code, message)


async def test_too_many_partitions_of_one_request_are_refused(bench: HandlerBench) -> None:
    results = await create(bench, wanted("a", 6_000), wanted("b", 6_000))
    assert [result.error_code for result in results] == [ErrorCode.policy_violation] * 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("foo", "1", "Unknown topic config name: foo"),
        ("retention_ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "retention_ms",
            "x",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
async def test_invalid_configs_of_a_new_topic_are_refused(
    bench: HandlerBench, name: str, value: str | None, message: str
) -> None:
    assert await refused(bench, wanted("a", **{name: value})) == (ErrorCode.invalid_config, message)


async def test_the_last_value_of_a_config_given_twice_counts(bench: HandlerBench) -> None:
    topic = wanted("a")
    topic["configs"] = [{"name": "retention.ms", "value": value} for value in ("1", "2")]
    await create(bench, topic)
    assert bench.topics.get("a").configs == {"retention.ms": "2"}  # type: ignore[union-attr]


class TestAssignments:
    async def test_assignments_may_be_in_any_order(self, bench: HandlerBench) -> None:
        (result,) = await create(bench, wanted("a", -1, -1, [(1, [0]), (0, [0])]))
        assert (result.error_code, result.num_partitions) == (ErrorCode.none, 2)

    @pytest.mark.parametrize(
        ("partitions", "factor", "assignments", "message"),
        [
            (
                1,
                -1,
                [(0, [0])],
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
            (
                -1,
                1,
                [(0, [0])],
                "A manual partition assignment was specified, but replication factor was "
                "not set to -1.",
            ),
        ],
    )
    async def test_numbers_beside_manual_assignments_are_refused(
        self,
        bench: HandlerBench,
        partitions: int,
        factor: int,
        assignments: Assignments,
        message: str,
    ) -> None:
        topic = wanted("a", partitions, factor, assignments)
        assert await refused(bench, topic) == (ErrorCode.invalid_request, message)

    @pytest.mark.parametrize(
        ("assignments", "message"),
        [
            ([(0, [0]), (2, [0])], "partitions should be a consecutive 0-based integer sequence"),
            ([(-1, [0])], "partitions should be a consecutive 0-based integer sequence"),
            ([(0, [0]), (0, [0])], "Found multiple manual partition assignments for partition 0"),
            (
                [(0, [0, 0])],
                "The manual partition assignment includes the broker 0 more than once.",
            ),
            (
                [(0, [5])],
                "The manual partition assignment includes broker 5, but no such broker is "
                "registered.",
            ),
            (
                [(0, [0, 5])],
                "The manual partition assignment includes broker 5, but no such broker is "
                "registered.",
            ),
            ([(0, [])], "The manual partition assignment includes an empty replica list."),
        ],
    )
    async def test_invalid_manual_assignments_are_refused(
        self, bench: HandlerBench, assignments: Assignments, message: str
    ) -> None:
        topic = wanted("a", -1, -1, assignments)
        assert await refused(bench, topic) == (ErrorCode.invalid_replica_assignment, message)


async def test_topics_with_long_configs_are_made_together(bench: HandlerBench) -> None:
    replicas = {"leader_replication_throttled_replicas": ",".join(["0:0"] * 8_000)}
    many = [wanted(f"t{number}", **replicas) for number in range(40)]
    assert {each.error_code for each in await create(bench, *many)} == {ErrorCode.none}
    bench.restart()
    assert len(bench.topics) == 40
