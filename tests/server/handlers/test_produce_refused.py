"""Produce requests on their way while a node begins to lead: their batches keep their order."""

import asyncio
from bisect import insort
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import BY_NAME
from kohort.protocol.batch_format import MAX_SEQUENCE
from kohort.protocol.batches import increment_sequence, iterate
from kohort.protocol.messages import encode, request
from kohort.server.handlers.produce import FAST_PATHS
from kohort.types import TopicPartition
from server.faulty_logs import NO_SPACE, LostLog
from server.handlers.bench import FakeExchange, HandlerBench, batch_of

NOT_LEADER = ErrorCode.not_leader_or_follower
GAP = ErrorCode.out_of_order_sequence_number
NONE = ErrorCode.none
ORDERS = TopicPartition("orders", 0)


class Node:
    """A node that leads the partition or does not, and what one producer sends it."""

    def __init__(self, version: int = 9, *, is_fast: bool = False, **settings: object) -> None:
        self.bench = HandlerBench(**settings)
        self.bench.controller.topics.create("orders", 1)
        self._version = version
        self._is_fast = is_fast

    def stop_leading(self, error: BaseException | None = None) -> None:
        self.bench.directory.fail("append", ORDERS, error or KafkaError(NOT_LEADER))

    def lead(self) -> None:
        self.bench.directory.heal()

    def fields(self, sequence: int, topic: str, epoch: int) -> dict[str, Any]:
        records = batch_of(
            b"%d" % sequence, producer_id=1, producer_epoch=epoch, base_sequence=sequence
        )
        key: dict[str, Any] = {"name": topic}
        if self._version >= 13:
            found = self.bench.topics.get(topic)
            assert found is not None
            key = {"topic_id": found.id}
        partition = {"index": 0, "records": records}
        return {"acks": -1, "topic_data": [{**key, "partition_data": [partition]}]}

    async def produce(self, sequence: int, *, topic: str = "orders", epoch: int = 0) -> ErrorCode:
        """The response to one batch of one record."""
        fields = self.fields(sequence, topic, epoch)
        if self._is_fast:
            exchange = FakeExchange(BY_NAME["produce"].key, self._version)
            content = encode(request(BY_NAME["produce"].key, self._version, **fields))
            assert FAST_PATHS[self._version](self.bench.services, exchange, content, 0)
            outcome = exchange.outcome
        else:
            outcome = await self.bench.ask("produce", self._version, **fields)
        return outcome.responses[0].partition_responses[0].error_code  # type: ignore[no-any-return]

    def content(self, topic: str = "orders") -> list[int]:
        """The sequences in the log."""
        log = self.bench.topics.log(topic, 0)
        assert log is not None
        return [
            header.base_sequence
            for _, header in iterate(log.read(0, 1 << 20) if log.end_offset else b"")
        ]


async def that_refused_one() -> Node:
    """A node that took batch 0, refused batch 1, and leads again."""
    node = Node()
    await node.produce(0)
    node.stop_leading()
    await node.produce(1)
    node.lead()
    return node


VERSIONS = pytest.mark.parametrize(
    ("version", "is_fast"), [(3, False), (9, False), (9, True), (13, False), (13, True)]
)


@VERSIONS
@pytest.mark.parametrize("known", [0, 3])
async def test_batches_behind_a_refused_one_are_refused_as_it_was(
    version: int, is_fast: bool, known: int
) -> None:
    """`known`: batches that the log has of the producer."""
    node = Node(version, is_fast=is_fast)
    for sequence in range(known):
        assert await node.produce(sequence) is NONE
    node.stop_leading()
    assert await node.produce(known) is NOT_LEADER
    node.lead()
    assert [await node.produce(known + at) for at in (1, 2, 3, 4)] == [NOT_LEADER] * 4
    assert [await node.produce(known + at) for at in range(5)] == [NONE] * 5
    assert node.content() == [*range(known + 5)]


async def test_a_real_gap_is_told() -> None:
    node = Node()
    assert [await node.produce(sequence) for sequence in (0, 2)] == [NONE, GAP]
    node.stop_leading()
    assert await node.produce(2) is NOT_LEADER
    node.lead()
    assert await node.produce(2) is GAP
    assert node.content() == [0]


async def test_a_producer_that_never_sends_it_again_is_told_when_the_next_comes_again() -> None:
    node = await that_refused_one()
    assert [await node.produce(sequence) for sequence in (2, 3, 2)] == [NOT_LEADER, NOT_LEADER, GAP]


async def test_a_producer_that_sends_nothing_again_is_held_up_for_five_responses() -> None:
    node = await that_refused_one()
    assert [await node.produce(2 + at) for at in range(6)] == [NOT_LEADER] * 5 + [GAP]


async def test_an_unknown_producer_may_begin_anywhere_if_nothing_was_refused() -> None:
    """Its earlier batches may have been deleted."""
    node = Node()
    assert await node.produce(13) is NONE


async def test_batches_that_another_leader_appended_are_not_awaited() -> None:
    node = Node()
    node.stop_leading()
    assert await node.produce(85) is NOT_LEADER
    node.lead()
    log = node.bench.topics.log("orders", 0)
    assert log is not None
    for sequence in range(85, 89):
        elsewhere = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=sequence)
        log.append(elsewhere, node.bench.clock.timestamp())
    assert await node.produce(89) is NONE


async def test_a_new_epoch_begins_at_once() -> None:
    node = await that_refused_one()
    assert await node.produce(0, epoch=1) is NONE
    assert await node.produce(1, epoch=1) is NONE


async def test_a_storage_that_fails_for_one_batch() -> None:
    node = Node()
    await node.produce(0)
    node.stop_leading(NO_SPACE)
    assert await node.produce(1) is ErrorCode.kafka_storage_error
    node.lead()
    assert await node.produce(2) is ErrorCode.kafka_storage_error
    assert [await node.produce(1), await node.produce(2)] == [NONE, NONE]


async def test_a_topic_that_is_not_known_yet() -> None:
    node = Node()
    assert await node.produce(0, topic="new") is ErrorCode.unknown_topic_or_partition
    node.bench.controller.topics.create("new", 1)
    assert await node.produce(1, topic="new") is ErrorCode.unknown_topic_or_partition
    assert [await node.produce(0, topic="new"), await node.produce(1, topic="new")] == [NONE, NONE]
    assert node.content("new") == [0, 1]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_producer_unknown_to_the_log_begins_in_order_after_what_another_node_took(
    count: int,
) -> None:
    """The log has forgotten it, or was created again. A batch was refused here long before."""
    node = Node()
    node.stop_leading()
    assert await node.produce(5) is NOT_LEADER
    node.lead()
    sequences = [*range(900, 900 + count)]
    assert [await node.produce(sequence) for sequence in sequences] == [NOT_LEADER] * count
    assert [await node.produce(sequence) for sequence in sequences] == [NONE] * count
    assert node.content() == sequences


async def test_a_topic_that_is_created_again_under_a_producer() -> None:
    """The first of three batches comes before it, and one was refused here long before."""
    node = Node()
    assert await node.produce(5, topic="new") is ErrorCode.unknown_topic_or_partition
    assert await node.produce(900, topic="new") is ErrorCode.unknown_topic_or_partition
    node.bench.controller.topics.create("new", 1)
    for sequence in (901, 902):
        assert await node.produce(sequence, topic="new") is ErrorCode.unknown_topic_or_partition
    assert [await node.produce(sequence, topic="new") for sequence in (900, 901, 902)] == [NONE] * 3


async def test_a_fenced_producer_does_not_end_the_wait_of_the_next_one() -> None:
    node = Node()
    await node.produce(0)
    node.stop_leading()
    assert await node.produce(0, epoch=1) is NOT_LEADER
    assert await node.produce(1) is NOT_LEADER
    node.lead()
    assert await node.produce(2) is GAP
    assert await node.produce(1, epoch=1) is NOT_LEADER
    assert [await node.produce(0, epoch=1), await node.produce(1, epoch=1)] == [NONE] * 2


async def test_names_that_no_topic_can_have_are_not_remembered() -> None:
    """They can be long, and no producer sends to them for good."""
    node = Node()
    assert await node.produce(0, topic="a" * 250) is ErrorCode.unknown_topic_or_partition
    assert not node.bench.refused_batches
    assert await node.produce(0, topic="a" * 249) is ErrorCode.unknown_topic_or_partition
    assert len(node.bench.refused_batches) == 1


async def test_batches_that_did_not_become_durable() -> None:
    """They are lost with the log, and the next ones come when the node leads it again."""
    node = Node(durability="fsync")
    topic = node.bench.topics.get("orders")
    assert topic is not None
    (log,) = topic.partitions
    lost = Node().bench.topics.log("orders", 0)

    topic.partitions = (LostLog(lost),)  # type: ignore[assignment]
    assert [await node.produce(0), await node.produce(1)] == [NOT_LEADER] * 2
    topic.partitions = (log,)
    assert await node.produce(2) is NOT_LEADER
    assert [await node.produce(sequence) for sequence in range(3)] == [NONE] * 3


class Connection:
    """A producer with up to five batches on their way, as the clients of Kafka have them.

    Requests come to the node in their order, and each response comes back some time later.
    """

    def __init__(self, node: Node, sequences: list[int]) -> None:
        self._node = node
        self._order = {sequence: at for at, sequence in enumerate(sequences)}
        self._unsent = list(sequences)
        self._requests: deque[int] = deque()
        self._responses: deque[tuple[int, ErrorCode]] = deque()

    def send(self) -> None:
        if self._unsent and len(self._requests) + len(self._responses) < 5:
            self._requests.append(self._unsent.pop(0))

    async def arrive(self) -> None:
        if self._requests:
            sequence = self._requests.popleft()
            self._responses.append((sequence, await self._node.produce(sequence)))

    def receive(self) -> None:
        if self._responses:
            sequence, error = self._responses.popleft()
            assert error in (NONE, NOT_LEADER), f"{error.name} for {sequence}"
            if error:
                insort(self._unsent, sequence, key=self._order.__getitem__)


@given(
    st.sampled_from([0, 13, MAX_SEQUENCE - 4]),
    st.lists(st.sampled_from(["send", "send", "arrive", "arrive", "receive", "lead", "stop"])),
)
def test_a_producer_sees_no_gap_however_often_the_leader_changes(
    first: int, steps: list[str]
) -> None:
    sequences = [increment_sequence(first, at) for at in range(12)]
    node = Node()
    connection = Connection(node, sequences)

    async def run() -> None:
        for step in (*steps, "lead", *("send", "arrive", "receive") * 60):
            match step:
                case "send":
                    connection.send()
                case "arrive":
                    await connection.arrive()
                case "receive":
                    connection.receive()
                case "lead":
                    node.lead()
                case "stop":
                    node.stop_leading()

    asyncio.run(run())
    assert node.content() == sequences
