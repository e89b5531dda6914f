"""CreatePartitions v0-3."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from kohort.errors import ErrorCode
from kohort.log.partition_directories import NameTakenError
from kohort.types import TopicPartition
from server.handlers.bench import HandlerBench


async def grow(
    bench: HandlerBench,
    *topics: tuple[str, int] | tuple[str, int, list[list[int]]],
    version: int = 3,
    **fields: Any,
) -> list[tuple[str, ErrorCode, str | None]]:
    asked = [
        {
            "name": topic[0],
            "count": topic[1],
            "assignments": [{"broker_ids": ids} for ids in topic[2]],
        }
        if len(topic) == 3
        else {"name": topic[0], "count": topic[1], "assignments": None}
        for topic in topics
    ]
    fields = {"timeout_ms": 5_000} | fields
    results = (await bench.ask("create_partitions", version, topics=asked, **fields)).results
    return [(result.name, result.error_code, result.error_message) for result in results]


def count(bench: HandlerBench, topic: str) -> int:
    return len(bench.topics.get(topic).partitions)  # type: ignore[union-attr]


@pytest.mark.parametrize("version", range(4))
async def test_created_partitions_accept_records_and_survive_a_restart(
    bench: HandlerBench, topic: str, version: int
) -> None:
    assert await grow(bench, (topic, 5), version=version) == [(topic, ErrorCode.none, None)]
    bench.fill(topic, 4)
    bench.restart()
    assert count(bench, topic) == 5


async def test_validated_partitions_are_not_created(bench: HandlerBench, topic: str) -> None:
    assert await grow(bench, (topic, 5), validate_only=True) == [(topic, ErrorCode.none, None)]
    assert count(bench, topic) == 3


@pytest.mark.parametrize(
    ("total", "code", "message"),
    [
        (3, ErrorCode.invalid_partitions, "Topic already has 3 partition(s)."),
        (
            2,
            ErrorCode.invalid_partitions,
            "The topic orders currently has 3 partition(s); 2 would not be an increase.",
        ),
        (
            -1,
            ErrorCode.invalid_partitions,
            "The topic orders currently has 3 partition(s); -1 would not be an increase.",
        ),
        (20_000, ErrorCode.policy_violation, "Excessively large number of partitions per request."),
    ],
)
async def test_invalid_totals_of_partitions_are_refused(
    bench: HandlerBench, topic: str, total: int, code: ErrorCode, message: str
) -> None:
    assert await grow(bench, (topic, total)) == [(topic, code, message)]
    assert count(bench, topic) == 3


async def test_too_many_partitions_of_all_topics_together_are_refused(
    bench: HandlerBench, topic: str
) -> None:
    bench.controller.topics.create("more", 1)
    refused = "Excessively large number of partitions per request."
    before = count(bench, topic)
    assert await grow(bench, (topic, before + 9_999), ("more", 3), ("unknown", 1)) == [
        (topic, ErrorCode.policy_violation, refused),
        ("more", ErrorCode.policy_violation, refused),
        ("unknown", ErrorCode.policy_violation, refused),
    ]
    assert (count(bench, topic), count(bench, "more")) == (before, 1)


async def test_unknown_and_twice_and_late(bench: HandlerBench, topic: str) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    assert await grow(bench, ("nope", 3), ("", 3)) == [("nope", unknown, None), ("", unknown, None)]
    assert await grow(bench, (topic, 4), (topic, 5)) == [
        (topic, ErrorCode.invalid_request, "Duplicate topic name.")
    ]
    assert await grow(bench, (topic, 4), timeout_ms=0) == [
        (topic, ErrorCode.request_timed_out, None)
    ]
    assert await grow(bench) == []
    assert count(bench, topic) == 3


async def test_invalid_assignments_of_new_partitions_are_refused(
    bench: HandlerBench, topic: str
) -> None:
    assert await grow(bench, (topic, 5, [[0], [0]])) == [(topic, ErrorCode.none, None)]
    for total, assignments, message in (
        (
            7,
            [[0]],
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            6,
            [],
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            6,
            [[5]],
            "The manual partition assignment includes broker 5, but no such broker is registered.",
        ),
        (6, [[0, 0]], "The manual partition assignment includes the broker 0 more than once."),
        (6, [[]], "The manual partition assignment includes an empty replica list."),
    ):
        assert await grow(bench, (topic, total, assignments)) == [
            (topic, ErrorCode.invalid_replica_assignment, message)
        ]
    assert count(bench, topic) == 5


async def test_the_number_of_group_partitions_is_fixed(bench: HandlerBench) -> None:
    bench.controller.topics.create("__consumer_offsets", 2, internal=True)
    ((_, code, _),) = await grow(bench, ("__consumer_offsets", 3))
    assert code is ErrorCode.policy_violation
    assert count(bench, "__consumer_offsets") == 2


async def test_many_topics_wait_for_the_disk_together(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number}" for number in range(60)]
    for name in names:
        bench.controller.topics.create(name, 1)
    bench.controller.writer.flush()
    waits, durable = [], bench.controller.writer.durable

    async def counted(change: int | None = None) -> None:
        waits.append(change)
        await durable(change)

    monkeypatch.setattr(bench.controller.writer, "durable", counted)
    results = await grow(bench, *((name, 3) for name in names), ("unknown", 3), ("t0", 2))
    codes = {name: code for name, code, _ in results}
    assert codes.pop("unknown") == ErrorCode.unknown_topic_or_partition
    assert codes.pop("t0") == ErrorCode.invalid_request  # it was named twice
    assert codes == dict.fromkeys(names[1:], ErrorCode.none)
    assert len(waits) == 1
    bench.restart()
    assert [count(bench, name) for name in names] == [1, *[3] * 59]


async def test_a_topic_whose_directory_has_another_owner_leaves_the_others(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        bench.controller.topics.create(name, 1)
    bench.controller.writer.flush()
    taken, make = TopicPartition("b", 1), bench.directory.directories.make

    def make_others(places: Mapping[TopicPartition, UUID]) -> None:
        if taken in places:
            raise NameTakenError(taken, "b-1")
        make(places)

    monkeypatch.setattr(bench.directory.directories, "make", make_others)
    results = await grow(bench, ("a", 2), ("b", 2), ("c", 2))
    assert [code for _, code, _ in results] == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
        ErrorCode.none,
    ]
    assert [count(bench, name) for name in ("a", "b", "c")] == [2, 1, 2]
