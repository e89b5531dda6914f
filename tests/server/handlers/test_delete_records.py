"""DeleteRecords v0-2."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from server.handlers.bench import HandlerBench

OUT = (ErrorCode.offset_out_of_range, -1)


async def delete(
    bench: HandlerBench, *wishes: tuple[int, int], topic: str = "orders", version: int = 2
) -> list[Any]:
    asked = [{"partition_index": partition, "offset": offset} for partition, offset in wishes]
    topics = [{"name": topic, "partitions": asked}]
    (answer,) = (await bench.ask("delete_records", version, topics=topics, timeout_ms=1_000)).topics
    assert answer.name == topic
    return [(each.error_code, each.low_watermark) for each in answer.partitions]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_records_below_an_offset_are_deleted(
    bench: HandlerBench, topic: str, version: int
) -> None:
    for _ in range(3):
        bench.fill(topic, records=4)
    log = bench.topics.log(topic, 0)
    assert log is not None
    assert await delete(bench, (0, 4), version=version) == [(ErrorCode.none, 4)]
    assert log.start_offset == 4
    assert await delete(bench, (0, 2), version=version) == [(ErrorCode.none, 4)]
    assert await delete(bench, (0, 99), (1, 0), version=version) == [OUT, (ErrorCode.none, 0)]
    assert await delete(bench, (0, -2), version=version) == [OUT]
    assert await delete(bench, (0, 6), version=version) == [(ErrorCode.none, 6)]
    assert await delete(bench, (0, -1), version=version) == [(ErrorCode.none, 12)]
    assert (log.start_offset, log.end_offset) == (12, 12)
    bench.fill(topic)
    assert log.end_offset == 13


async def test_the_last_offset_of_a_partition_named_twice_counts(
    bench: HandlerBench, topic: str
) -> None:
    bench.fill(topic, records=4)
    assert await delete(bench, (0, 1), (0, 3)) == [(ErrorCode.none, 3)]


async def test_deleting_records_of_an_unknown_partition_is_an_error(
    bench: HandlerBench, topic: str
) -> None:
    unknown = [(ErrorCode.unknown_topic_or_partition, -1)]
    assert await delete(bench, (0, 0), topic="nope") == unknown
    assert await delete(bench, (3, 0)) == unknown


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        ("compact", (ErrorCode.policy_violation, -1)),
        ("compact,delete", (ErrorCode.none, 0)),
        ("", (ErrorCode.policy_violation, -1)),
    ],
)
async def test_only_where_the_policy_deletes(
    bench: HandlerBench, policy: str, answer: tuple[ErrorCode, int]
) -> None:
    bench.controller.topics.create("t", 1, {"cleanup.policy": policy})
    assert await delete(bench, (0, 0), topic="t") == [answer]
