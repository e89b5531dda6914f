"""Produce, Fetch, CreateTopics, CreatePartitions and DeleteTopics of clients with quotas."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, quota_entity
from server.handlers.bench import HandlerBench, batch_of

THROTTLED = ErrorCode.throttling_quota_exceeded
ANONYMOUS = quota_entity([("user", "ANONYMOUS")])


def give(bench: HandlerBench, key: str, bound: float) -> None:
    bench.controller.writer.commit(
        *bench.controller.client_quotas.alter_quotas({ANONYMOUS: {key: bound}})
    )


async def told(bench: HandlerBench, api: str, version: int, **asked: Any) -> tuple[Any, int]:
    """The response, and for how long its client waits, in ms."""
    exchange, task = bench.begin(api, version, **asked)
    if task is not None:
        await task
    return exchange.outcome, exchange.throttle_ms


async def produce(bench: HandlerBench, topic: str, size: int, acks: int = 1) -> int:
    data = [{"index": 0, "records": batch_of(bytes(size))}]
    asked = {"topic_data": [{"name": topic, "partition_data": data}]}
    answer, wait = await told(
        bench, "produce", 9, transactional_id=None, acks=acks, timeout_ms=1, **asked
    )
    if acks:
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    return wait


@pytest.mark.parametrize("acks", [0, 1])
async def test_produce_requests_above_the_quota_are_throttled(
    bench: HandlerBench, topic: str, acks: int
) -> None:
    assert await produce(bench, topic, 100_000, acks) == 0
    give(bench, PRODUCER_BYTE_RATE, 1_000)
    assert await produce(bench, topic, 9_500, acks) == 0
    wait = await produce(bench, topic, 10_000, acks)
    assert 9_500 < wait < 11_000  # with the bytes around the records
    bench.clock.ms += 11_000
    assert await produce(bench, topic, 0, acks) == 0


def fetching(topic: str, **more: Any) -> dict[str, Any]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "partitions": partitions}],
        **more,
    }


def size_of(answer: Any) -> int:
    return sum(
        len(partition.records or b"") for one in answer.responses for partition in one.partitions
    )


@pytest.mark.parametrize("version", [4, 11])
async def test_a_throttled_fetch_is_empty_and_gets_its_records_later(
    bench: HandlerBench, topic: str, version: int
) -> None:
    for _ in range(20):
        bench.fill(topic, records=1, size=1_000)
    give(bench, CONSUMER_BYTE_RATE, 1_000)
    first, wait = await told(bench, "fetch", version, **fetching(topic))
    assert 9_000 < size_of(first) <= 10_000
    assert wait == 0
    second, wait = await told(bench, "fetch", version, **fetching(topic))
    assert second.responses == ()
    assert wait > 5_000
    bench.clock.ms += 11_000
    third, wait = await told(bench, "fetch", version, **fetching(topic))
    assert (size_of(third), wait) == (size_of(first), 0)


async def test_a_session_goes_on_after_a_throttled_fetch(bench: HandlerBench, topic: str) -> None:
    bench.fill(topic, records=1, size=9_000)
    first, _ = await told(bench, "fetch", 11, **fetching(topic, session_epoch=0))
    assert first.session_id
    give(bench, CONSUMER_BYTE_RATE, 1_000)
    bench.throttling.admits_fetch(bench.begin("fetch", 11, **fetching(topic))[0], 10_000)

    async def go_on(epoch: int) -> tuple[Any, int]:
        asked = fetching(topic, session_id=first.session_id, session_epoch=epoch)
        return await told(bench, "fetch", 11, **asked)

    answer, wait = await go_on(1)
    assert (answer.session_id, answer.responses, wait > 0) == (first.session_id, (), True)
    bench.clock.ms += 12_000
    answer, wait = await go_on(2)
    assert (size_of(answer), wait) == (size_of(first), 0)


async def test_a_throttled_first_fetch_opens_no_session(bench: HandlerBench, topic: str) -> None:
    bench.fill(topic, records=1, size=20_000)
    give(bench, CONSUMER_BYTE_RATE, 1_000)
    answer, wait = await told(bench, "fetch", 11, **fetching(topic, session_epoch=0))
    assert (answer.session_id, answer.responses) == (0, ())
    assert wait > 0


def new_topics(*names: str, partitions: int = 10) -> list[dict[str, Any]]:
    return [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]


async def create(
    bench: HandlerBench, version: int, *names: str, validate_only: bool = False
) -> tuple[list[ErrorCode], int]:
    answer, wait = await told(
        bench,
        "create_topics",
        version,
        topics=new_topics(*names),
        timeout_ms=1_000,
        validate_only=validate_only,
    )
    return [topic.error_code for topic in answer.topics], wait


async def test_topics_beyond_the_quota_are_refused(bench: HandlerBench) -> None:
    give(bench, "controller_mutation_rate", 1)
    # 11 partitions may be created at once, and the last topic may go beyond
    assert await create(bench, 7, "a", "b", "c") == ([ErrorCode.none] * 2 + [THROTTLED], 9_000)
    assert bench.topics.get("c") is None
    bench.clock.ms += 9_000
    assert await create(bench, 7, "c") == ([ErrorCode.none], 0)
    assert await create(bench, 7, "d", validate_only=True) == ([THROTTLED], 10_000)


async def test_older_versions_create_and_wait(bench: HandlerBench) -> None:
    give(bench, "controller_mutation_rate", 1)
    assert await create(bench, 5, "a", "b", "c") == ([ErrorCode.none] * 3, 19_000)


async def test_partitions_that_are_added_and_deleted_count(bench: HandlerBench) -> None:
    bench.controller.topics.create("a", 5)
    bench.controller.topics.create("b", 20)
    give(bench, "controller_mutation_rate", 1)
    grown = [{"name": "a", "count": 10, "assignments": None}]
    answer, wait = await told(bench, "create_partitions", 3, topics=grown, timeout_ms=1_000)
    assert (answer.results[0].error_code, wait) == (ErrorCode.none, 0)
    answer, wait = await told(bench, "delete_topics", 5, topic_names=["b"], timeout_ms=1_000)
    assert (answer.responses[0].error_code, wait) == (ErrorCode.none, 0)
    grown[0]["count"] = 11
    answer, wait = await told(bench, "create_partitions", 3, topics=grown, timeout_ms=1_000)
    assert (answer.results[0].error_code, wait) == (THROTTLED, 14_000)
    answer, wait = await told(bench, "delete_topics", 5, topic_names=["a"], timeout_ms=1_000)
    assert (answer.responses[0].error_code, wait) == (THROTTLED, 14_000)
    answer, wait = await told(bench, "delete_topics", 4, topic_names=["a"], timeout_ms=1_000)
    assert (answer.responses[0].error_code, wait) == (ErrorCode.none, 24_000)
