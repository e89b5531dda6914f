"""TxnOffsetCommit: what is verified before the group is asked, and what each version is told."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode, KafkaError
from kohort.log.producer_states import VerificationStateEntry
from kohort.protocol.building import request
from kohort.server.handlers import txn_offset_commit
from kohort.types import TopicPartition
from server.handlers.bench import FakeExchange, HandlerBench

KEY = 28
GROUP_LOG = TopicPartition("__consumer_offsets", 3)


def new_guard() -> VerificationStateEntry:
    return VerificationStateEntry(2, -1, tv2=False, now=0)


class Coordinators:
    """The group coordinator and the transaction coordinator, with what both were asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.guard: VerificationStateEntry | Exception | None = new_guard()
        self.ended_by_markers = 0
        """How many guards are ended while the transaction is verified."""
        self.verdict = ErrorCode.none
        self.error = ErrorCode.none

    def begin_verification(
        self, group: str, producer_id: int, producer_epoch: int
    ) -> VerificationStateEntry | None:
        if isinstance(self.guard, Exception):
            raise self.guard
        return self.guard

    def partition_of(self, group: str) -> TopicPartition:
        return GROUP_LOG

    async def verify(self, *asked: object, add: bool) -> ErrorCode:
        self.asked.append((*asked, add))
        await asyncio.sleep(0)
        if self.ended_by_markers:
            self.ended_by_markers -= 1
            assert isinstance(self.guard, VerificationStateEntry)
            self.guard.has_ended = True
            self.guard = new_guard()
        return self.verdict

    def submit(self, commit: Any) -> None:
        self.asked.append(commit)
        partitions = (TopicPartition(offset.topic, offset.partition) for offset in commit.offsets)
        results = tuple((partition, self.error) for partition in partitions)
        asyncio.get_running_loop().call_soon(commit.on_response, OffsetCommitResponse(results))


@pytest.fixture
def coordinators(bench: HandlerBench) -> Coordinators:
    bench.controller.topics.create("orders", 2)
    return Coordinators()


async def commit(
    bench: HandlerBench, coordinators: Coordinators, version: int = 5, /, **fields: Any
) -> list[list[tuple[int, str]]]:
    """The (partition, error)s of each topic of the response."""
    bench.groups = coordinators
    services = bench.services
    object.__setattr__(services, "verifier", coordinators)
    asked: dict[str, Any] = {
        "transactional_id": "tx",
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 2,
        "topics": [topic("orders", 0)],
    } | fields
    if version >= 6:
        asked["topics"] = [by_id(bench, each) for each in asked["topics"]]
    exchange = FakeExchange(KEY, version)
    await txn_offset_commit.handle(services, exchange, request(KEY, version, **asked))  # type: ignore[arg-type]
    return [
        [
            (partition.partition_index, ErrorCode(partition.error_code).name)
            for partition in topic.partitions
        ]
        for topic in exchange.outcome.topics
    ]


def topic(name: str, *partitions: int) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": [
            {
                "partition_index": number,
                "committed_offset": 5,
                "committed_leader_epoch": 1,
                "committed_metadata": "m",
            }
            for number in partitions
        ],
    }


def by_id(bench: HandlerBench, named: dict[str, Any]) -> dict[str, Any]:
    """The topic by its id, if it is not by id already."""
    if "topic_id" in named:
        return named
    found = bench.topics.get(named["name"])
    return {
        "topic_id": UUID(int=1) if found is None else found.id,
        "partitions": named["partitions"],
    }


async def test_a_commit_whose_transaction_was_ended_by_markers_is_verified_again(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.ended_by_markers = 2
    assert await commit(bench, coordinators) == [[(0, "none")]]
    *verified, asked = coordinators.asked
    assert verified == [(("tx", 7, 2), GROUP_LOG, True)] * 3
    assert asked.verified is coordinators.guard


async def test_a_commit_whose_guards_are_ended_each_time_is_to_be_repeated(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.ended_by_markers = 100
    assert await commit(bench, coordinators) == [[(0, "concurrent_transactions")]]


@pytest.mark.parametrize("version", range(7))
async def test_the_transaction_is_verified_and_then_the_group_asked(
    bench: HandlerBench, coordinators: Coordinators, version: int
) -> None:
    generation = "generation_id_or_member_epoch" if version >= 6 else "generation_id"
    member = {"member_id": "m", generation: 4, "group_instance_id": "i"}
    fields = member if version >= 3 else {}
    assert await commit(bench, coordinators, version, **fields) == [[(0, "none")]]
    verified, asked = coordinators.asked
    assert verified == (("tx", 7, 2), GROUP_LOG, version >= 5)
    assert (asked.group, asked.producer_id, asked.producer_epoch) == ("g", 7, 2)
    assert (asked.verified, asked.version) == (coordinators.guard, version)
    named = ("m", 4, "i") if version >= 3 else ("", -1, None)
    assert (asked.member_id, asked.generation, asked.instance_id) == named
    of = bench.topics.get("orders")
    assert of is not None
    leader_epoch = 1 if version >= 2 else -1
    assert asked.offsets == (OffsetToCommit("orders", 0, 5, leader_epoch, "m", of.id),)


async def test_an_open_transaction_is_not_verified_again(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.guard = None
    assert await commit(bench, coordinators) == [[(0, "none")]]
    (asked,) = coordinators.asked
    assert asked.verified is None


@pytest.mark.parametrize(
    ("verdict", "version", "error"),
    [
        ("transaction_abortable", 3, "invalid_txn_state"),
        ("transaction_abortable", 4, "transaction_abortable"),
        ("producer_fenced", 3, "invalid_producer_epoch"),
        ("producer_fenced", 5, "invalid_producer_epoch"),
        ("invalid_producer_id_mapping", 3, "invalid_producer_id_mapping"),
        ("concurrent_transactions", 5, "concurrent_transactions"),
        ("coordinator_load_in_progress", 1, "coordinator_not_available"),
        ("coordinator_load_in_progress", 2, "coordinator_load_in_progress"),
        ("not_coordinator", 5, "not_coordinator"),
    ],
)
async def test_a_transaction_that_is_not_verified_is_refused(
    bench: HandlerBench, coordinators: Coordinators, verdict: str, version: int, error: str
) -> None:
    coordinators.verdict = ErrorCode[verdict]
    refused = await commit(bench, coordinators, version, topics=[topic("orders", 0, 1)])
    assert refused == [[(0, error), (1, error)]]
    assert len(coordinators.asked) == 1


@pytest.mark.parametrize(
    ("told", "version", "error"),
    [
        ("illegal_generation", 0, "illegal_generation"),
        ("coordinator_load_in_progress", 1, "coordinator_not_available"),
        ("coordinator_load_in_progress", 5, "coordinator_load_in_progress"),
        ("invalid_producer_epoch", 5, "invalid_producer_epoch"),
    ],
)
async def test_the_error_of_the_group_is_translated_for_old_versions(
    bench: HandlerBench, coordinators: Coordinators, told: str, version: int, error: str
) -> None:
    coordinators.error = ErrorCode[told]
    assert await commit(bench, coordinators, version) == [[(0, error)]]


async def test_partitions_that_do_not_exist(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    topics = [topic("orders", 0, 9), topic("missing", 0)]
    results = await commit(bench, coordinators, topics=topics)
    unknown = "unknown_topic_or_partition"
    assert sorted(results) == [[(0, unknown)], [(9, unknown), (0, "none")]]
    coordinators.asked.clear()
    assert await commit(bench, coordinators, topics=topics[1:]) == [[(0, unknown)]]
    assert coordinators.asked == []


async def test_topics_are_named_by_id_in_request_and_response(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    """As in Apache Kafka 4.4: UNKNOWN_TOPIC_ID for an unknown id, and for none at all."""
    orders = bench.topics.get("orders")
    assert orders is not None
    ids = (UUID(int=1), orders.id, None)
    topics = [{"topic_id": each, "partitions": topic("", 0, 9)["partitions"]} for each in ids]
    bench.groups = coordinators
    services = bench.services
    object.__setattr__(services, "verifier", coordinators)
    exchange = FakeExchange(KEY, 6)
    asked = request(
        KEY, 6, transactional_id="tx", group_id="g", producer_id=7, producer_epoch=2, topics=topics
    )
    await txn_offset_commit.handle(services, exchange, asked)  # type: ignore[arg-type]
    assert {
        each.topic_id: [(one.partition_index, one.error_code.name) for one in each.partitions]
        for each in exchange.outcome.topics
    } == {
        UUID(int=1): [(0, "unknown_topic_id"), (9, "unknown_topic_id")],
        None: [(0, "unknown_topic_id"), (9, "unknown_topic_id")],
        orders.id: [(9, "unknown_topic_or_partition"), (0, "none")],
    }


async def test_an_empty_group_id_is_left_to_the_group_coordinator(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.error = ErrorCode.invalid_group_id
    assert await commit(bench, coordinators, group_id="") == [[(0, "invalid_group_id")]]
    assert len(coordinators.asked) == 1


async def test_a_group_log_that_is_not_served(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.guard = KafkaError(ErrorCode.kafka_storage_error)
    assert await commit(bench, coordinators) == [[(0, "not_coordinator")]]
    assert coordinators.asked == []


async def test_very_many_partitions(bench: HandlerBench, coordinators: Coordinators) -> None:
    bench.controller.topics.create("wide", 3_000)
    (results,) = await commit(bench, coordinators, topics=[topic("wide", *range(3_000))])
    assert results == [(number, "none") for number in range(3_000)]


async def test_more_than_the_log_holds_is_refused_as_a_whole(
    bench: HandlerBench, coordinators: Coordinators
) -> None:
    coordinators.error = ErrorCode.invalid_commit_offset_size
    (results,) = await commit(bench, coordinators, topics=[topic("orders", *[0] * 20_000)])
    assert results == [(0, "invalid_commit_offset_size")] * 20_000
    assert len(coordinators.asked[1].offsets) < 20_000
