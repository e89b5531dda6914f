"""Responses while the storage fails: an error code, not the end of the connection."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.server.metadata import METADATA
from server.faulty_logs import IO_ERROR
from server.handlers.bench import HandlerBench

FAILED = ErrorCode.kafka_storage_error
SOON = 30_000

HOW = {"timeout_ms": SOON, "validate_only": False}
CHANGES: dict[str, tuple[int, dict[str, Any]]] = {
    "create_topics": (
        7,
        {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], **HOW},
    ),
    "create_partitions": (
        3,
        {"topics": [{"name": "orders", "count": 5, "assignments": None}], **HOW},
    ),
    "delete_topics": (6, {"topics": [{"name": "orders", "topic_id": None}], "timeout_ms": SOON}),
    "incremental_alter_configs": (
        1,
        {
            "resources": [{"resource_type": 2, "resource_name": "orders", "configs": []}],
            "validate_only": False,
        },
    ),
}


@pytest.fixture
async def failing(bench: HandlerBench, topic: str) -> HandlerBench:
    """Its metadata log cannot be synced."""
    await bench.controller.writer.durable()
    bench.directory.fail("unsynced", METADATA, IO_ERROR)
    return bench


@pytest.mark.parametrize("api", CHANGES)
async def test_a_change_of_topics(failing: HandlerBench, api: str) -> None:
    version, fields = CHANGES[api]
    answer = await failing.ask(api, version, **fields)
    (result,) = (
        getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
    )
    assert (result.error_code, result.error_message) == (
        FAILED,
        "The storage failed: Input/output error",
    )


async def test_an_error_found_before_the_write_keeps_its_code(failing: HandlerBench) -> None:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("orders", "new")
    ]
    answer = await failing.ask("create_topics", 7, topics=topics, **HOW)
    assert [each.error_code for each in answer.topics] == [ErrorCode.topic_already_exists, FAILED]


async def test_a_topic_that_metadata_makes(failing: HandlerBench) -> None:
    topics = [{"name": "new"}, {"name": "orders"}]
    answer = await failing.ask("metadata", 12, topics=topics, allow_auto_topic_creation=True)
    assert {each.name: each.error_code for each in answer.topics} == {
        "new": FAILED,
        "orders": ErrorCode.none,
    }


async def test_a_producer_id(failing: HandlerBench) -> None:
    answer = await failing.ask(
        "init_producer_id", 4, transactional_id=None, transaction_timeout_ms=1000
    )
    assert (answer.error_code, answer.producer_id) == (FAILED, -1)


async def test_one_log_of_several(bench: HandlerBench, topic: str) -> None:
    bench.fill(topic, 0)
    bench.fill(topic, 1)
    bench.topics.log(topic, 0).end(FAILED)  # type: ignore[union-attr]
    asked = [
        {"partition_index": index, "timestamp": 0, "current_leader_epoch": -1} for index in (0, 1)
    ]
    wanted = [{"name": topic, "partitions": asked}]
    answer = await bench.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=wanted)
    assert [each.error_code for each in answer.topics[0].partitions] == [FAILED, ErrorCode.none]
