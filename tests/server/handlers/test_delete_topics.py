"""DeleteTopics v1-6."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from kohort.errors import ErrorCode
from kohort.types import TopicPartition
from kohort.util.time_slice import SLICE_S
from server.handlers.bench import HandlerBench


async def delete(
    bench: HandlerBench, *names: str, version: int = 6, timeout_ms: int = 5_000
) -> list[Any]:
    asked: dict[str, Any] = (
        {"topic_names": names} if version < 6 else {"topics": [{"name": name} for name in names]}
    )
    return list(
        (await bench.ask("delete_topics", version, timeout_ms=timeout_ms, **asked)).responses
    )


async def delete_by_id(bench: HandlerBench, *ids: Any) -> list[Any]:
    asked = [{"name": None, "topic_id": each} for each in ids]
    return list((await bench.ask("delete_topics", 6, topics=asked, timeout_ms=5_000)).responses)


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_deleted_topic_is_gone_after_a_restart(
    bench: HandlerBench, topic: str, version: int
) -> None:
    topic_id = bench.topics.get(topic).id  # type: ignore[union-attr]
    told: list[frozenset[str]] = []
    bench.controller.replicas.deletions.on_deleted.append(told.append)
    done, missing = await delete(bench, topic, "nope", version=version)
    assert (done.name, done.error_code) == (topic, ErrorCode.none)
    assert (missing.name, missing.error_code) == ("nope", ErrorCode.unknown_topic_or_partition)
    if version >= 5:
        assert done.error_message is None
        assert missing.error_message == "This server does not host this topic-partition."
    if version >= 6:
        assert done.topic_id == topic_id
    assert told == [frozenset({topic})]
    bench.restart()
    assert list(bench.topics.all()) == []


async def test_topics_are_deleted_by_id(bench: HandlerBench, topic: str) -> None:
    topic_id, unknown = bench.topics.get(topic).id, uuid4()  # type: ignore[union-attr]
    results = await delete_by_id(bench, topic_id, unknown)
    assert [
        (result.name, result.topic_id, result.error_code, result.error_message)
        for result in results
    ] == [
        (topic, topic_id, ErrorCode.none, None),
        (None, unknown, ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
    ]


async def test_neither_and_both(bench: HandlerBench, topic: str) -> None:
    topic_id = bench.topics.get(topic).id  # type: ignore[union-attr]
    (neither,) = await delete_by_id(bench, None)
    assert (neither.error_code, neither.error_message) == (
        ErrorCode.invalid_request,
        "Neither topic name nor id were specified.",
    )
    asked = [{"name": topic, "topic_id": topic_id}]
    (both,) = (await bench.ask("delete_topics", 6, topics=asked, timeout_ms=5_000)).responses
    assert (both.error_code, both.error_message) == (
        ErrorCode.invalid_request,
        "You may not specify both topic name and topic id.",
    )
    assert bench.topics.get(topic) is not None


async def test_a_topic_named_twice_is_not_deleted(bench: HandlerBench, topic: str) -> None:
    (result,) = await delete(bench, topic, topic)
    assert (result.error_code, result.error_message) == (
        ErrorCode.invalid_request,
        "Duplicate topic name.",
    )
    assert bench.topics.get(topic) is not None


async def test_the_time_is_up(bench: HandlerBench, topic: str) -> None:
    (result,) = await delete(bench, topic, timeout_ms=0)
    assert result.error_code is ErrorCode.request_timed_out
    assert bench.topics.get(topic) is not None


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)]
)
async def test_topics_are_kept_while_deletion_is_disabled(version: int, code: ErrorCode) -> None:
    bench = HandlerBench(delete_topic_enable=False)
    bench.controller.topics.create("a", 1)
    (result,) = await delete(bench, "a", version=version)
    assert result.error_code is code
    assert bench.topics.get("a") is not None


async def test_the_log_of_groups_stays(bench: HandlerBench) -> None:
    bench.controller.topics.create("__consumer_offsets", 1, internal=True)
    (result,) = await delete(bench, "__consumer_offsets")
    assert result.error_code is ErrorCode.policy_violation
    assert bench.topics.get("__consumer_offsets") is not None


async def test_names_no_topic_can_have_are_unknown(bench: HandlerBench) -> None:
    results = await delete(bench, "bad name", "")
    assert [result.error_code for result in results] == [ErrorCode.unknown_topic_or_partition] * 2
    assert await delete(bench) == []


class EachDeletion(logging.Handler):
    """Calls a function when a topic was deleted, and lets other tasks run before the next one."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__()
        self._function = function

    def emit(self, _record: logging.LogRecord) -> None:
        self._function()
        time.sleep(2 * SLICE_S)  # the slice is used up


@contextmanager
def at_each_deletion(function: Callable[[], object]) -> Iterator[None]:
    handler, logger = EachDeletion(function), logging.getLogger("kohort.topics")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def begin_deletion(bench: HandlerBench, names: Sequence[str]) -> "asyncio.Task[None]":
    """Begin to delete topics that are created first."""
    for name in names:
        bench.controller.topics.create(name, 1)
    _, task = bench.begin("delete_topics", 5, topic_names=names, timeout_ms=5_000)
    assert task is not None
    return task


async def test_a_client_that_goes_away_does_not_cut_a_deletion_short(bench: HandlerBench) -> None:
    """All its topics are deleted in the log at once, so all have to go in memory too."""
    task = begin_deletion(bench, ["a", "b", "c"])
    with at_each_deletion(task.cancel):
        await asyncio.wait([task])
        await bench.controller.topics.create_topics([])  # the next change waits for the one before
    assert task.cancelled()
    assert list(bench.topics.all()) == []
    bench.restart()
    assert list(bench.topics.all()) == []


async def test_the_partitions_of_a_topic_are_closed_in_many_turns(
    bench: HandlerBench, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    turn, really = 0, bench.directory.retire

    def retire_slowly(partition: TopicPartition) -> None:
        closed.append(turn)
        time.sleep(2 * SLICE_S)
        really(partition)

    monkeypatch.setattr(bench.directory, "retire", retire_slowly, raising=False)
    deletion = asyncio.create_task(delete(bench, topic))
    while not deletion.done():
        await asyncio.sleep(0)
        turn += 1
    assert [result.error_code for result in deletion.result()] == [ErrorCode.none]
    assert len(closed) >= 3
    assert len(set(closed[:3])) == 3


async def test_no_topic_is_altered_that_the_log_has_deleted(bench: HandlerBench) -> None:
    """The record of an altered topic would bring it back at the next start."""
    task = begin_deletion(bench, ["a", "b", "c"])
    begun: list[Any] = []

    def alter() -> None:
        resource = {
            "resource_type": 2,
            "resource_name": "c",
            "configs": [{"name": "retention.ms", "config_operation": 0, "value": "7"}],
        }
        fields = {"resources": [resource], "validate_only": False}
        begun.append(bench.begin("incremental_alter_configs", 1, **fields))

    with at_each_deletion(alter):
        await task
    for exchange, altering in begun:
        if altering is not None:
            await altering
        (result,) = exchange.outcome.responses
        assert result.error_code is ErrorCode.unknown_topic_or_partition
    bench.restart()
    assert list(bench.topics.all()) == []
