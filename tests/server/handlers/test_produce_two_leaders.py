"""Batches of an idempotent producer are stored in order, each once, and acknowledged in the end.

A model of Java's producer sends to two nodes, which lead the partition in turn. Their topics, logs
and Produce handlers are real.

Two cases end otherwise, as in Kafka. The producer bumps its epoch if a batch that follows the last
acknowledged one gets OUT_OF_ORDER_SEQUENCE_NUMBER, and the model ends there. A stored batch whose
response was lost is no longer known as a duplicate once five others have followed it.
"""

from collections import deque
from random import Random
from uuid import UUID

import pytest

from effort import seeds
from kohort.errors import ErrorCode
from kohort.log.base import LogConfig
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.log.producer_states import REMEMBERED_BATCHES
from kohort.log.scan import headers
from kohort.server.controller import SharedController
from kohort.server.metadata import ClusterIdRecord, TopicRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.refused_batches import RETRIED_ERRORS
from kohort.types import TopicIdPartition, TopicPartition
from server.handlers.bench import START, HandlerBench, batch_of
from server.handlers.java_producer import EpochBumpError, JavaProducer, ProduceRequest

ORDERS, ID = TopicPartition("orders", 0), UUID(int=1)
NONE, GAP = ErrorCode.none, ErrorCode.out_of_order_sequence_number
BATCHES = 14
WEIGHTS = {
    "send": 30, "serve": 20, "receive": 6, "refresh_metadata": 10, "hang_or_resume": 8, "lead": 10,
    "disconnect": 4, "crash": 1, "reopen": 6, "settle": 1,
}  # fmt: skip
"""How often each event of a history occurs."""


class Node(HandlerBench):
    """A node that shares its storage with another one."""

    controller: SharedController

    def __init__(self, shared: MemoryCluster) -> None:
        self._shared = shared
        super().__init__()

    def restart(self) -> None:
        super().restart()
        self.requests: deque[ProduceRequest] = deque()
        self.is_hanging = False
        storage = MemoryStorage(self._shared, 0)
        self.logs = storage.logs
        metadata = SharedMetadataLog(storage, self.clock.timestamp)
        metadata.replay(0, ClusterIdRecord("cluster"))
        metadata.replay(1, TopicRecord(id=ID, name="orders", partitions=1))
        self.controller = SharedController(self.logs, self.config, metadata)

    async def produce(self, sequence: int) -> ErrorCode:
        records = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=sequence)
        topic = {"name": "orders", "partition_data": [{"index": 0, "records": records}]}
        outcome = await self.ask("produce", 9, acks=-1, topic_data=[topic])
        return outcome.responses[0].partition_responses[0].error_code  # type: ignore[no-any-return]


class History:
    """One producer and two nodes; the methods that `WEIGHTS` names are the events."""

    def __init__(self, seed: int, *, settled_after: str = "") -> None:
        """`settled_after`: an event after which the log is wrongly settled."""
        self._random = Random(seed)
        self._history = [f"seed {seed}"]
        self._settled_after = settled_after
        self._shared = MemoryCluster(lambda: START)
        self._nodes = Node(self._shared), Node(self._shared)
        self._producer = JavaProducer(BATCHES)
        self._leader, self._epoch = 0, -1

    async def run(self) -> None:
        """Raise AssertionError with the history if the invariant is violated."""
        await self.lead(0)
        try:
            for _ in range(self._random.choice((40, 100, 250))):
                (event,) = self._random.choices([*WEIGHTS], [*WEIGHTS.values()])
                await getattr(self, event)(self._random.randrange(2))
                if event == self._settled_after:
                    self._nodes[self._leader].controller.replicas.end_transition(ORDERS)
            await self._finish()
        except EpochBumpError:
            self._check_stored()
        else:
            self._check_stored()
            self._check_acknowledged()

    async def _finish(self) -> None:
        """Let nothing fail any more, for as long as it takes to send all batches again."""
        for node in self._nodes:
            node.is_hanging = False
        self._producer.leader = self._leader
        for step in range(10 * BATCHES):
            await self.send(0)
            await self.serve(step % 2)
            await self.receive(step % 2)

    def _stored(self) -> list[int]:
        """The sequences in the log."""
        segments = self._shared.logs[ORDERS].segments
        return [each.base_sequence for segment in segments for _, each in headers(segment.log, 0)]

    def _check_stored(self) -> None:
        stored, acknowledged = self._stored(), self._producer.acknowledged
        self._expect(stored == [*range(len(stored))], f"{stored} is not in order")
        self._expect({*stored} >= acknowledged, f"{acknowledged} are not all in {stored}")

    def _check_acknowledged(self) -> None:
        first = min({*range(BATCHES)} - self._producer.acknowledged, default=BATCHES)
        is_forgotten = first < len(self._stored()) - REMEMBERED_BATCHES
        self._expect(first == BATCHES or is_forgotten, f"{first} is not acknowledged")

    def _expect(self, is_true: bool, failure: str) -> None:
        assert is_true, "\n".join((*self._history, failure))

    # Events

    async def send(self, _: int) -> None:
        if request := self._producer.drain():
            self._nodes[request.node].requests.append(request)
            self._history.append(f"send {request.sequence} to {request.node}")

    async def serve(self, at: int) -> None:
        node = self._nodes[at]
        if node.requests and not node.is_hanging:
            request = node.requests.popleft()
            error = request.error = await node.produce(request.sequence)
            self._history.append(f"{at} responds to {request.sequence}: {error.name}")
            self._expect(error in {NONE, GAP, *RETRIED_ERRORS}, "it never has that error")
            follows = request.sequence == len(self._stored())
            self._expect(error is not GAP or not follows, "it follows the last one in the log")

    async def receive(self, at: int) -> None:
        request = next((batch for batch in self._producer.in_flight if batch.node == at), None)
        if request is not None and request.error is not None:
            self._history.append(f"receive the response of {at} to {request.sequence}")
            self._producer.complete(request)

    async def refresh_metadata(self, _: int) -> None:
        self._producer.leader = self._leader
        self._history.append(f"metadata: {self._leader} leads")

    async def hang_or_resume(self, at: int) -> None:
        self._nodes[at].is_hanging = not self._nodes[at].is_hanging
        self._history.append(f"{at} {'hangs' if self._nodes[at].is_hanging else 'resumes'}")

    async def lead(self, at: int) -> None:
        """A node that leads already begins a new session."""
        former = self._nodes[self._leader]
        if self._random.random() < 0.5:
            former.logs.end_all()  # it is fenced; else it hands the partition over
        await former.controller.replicas.resign(ORDERS)
        self._leader, self._epoch = at, self._epoch + 1
        await self._nodes[at].controller.replicas.become_leader(
            TopicIdPartition(ID, 0), self._epoch
        )
        self._history.append(f"{at} leads in epoch {self._epoch}")

    async def disconnect(self, at: int) -> None:
        self._producer.disconnect(at)
        if self._random.random() < 0.5:
            self._nodes[at].requests.clear()  # else it has read them
        self._history.append(
            f"{at} disconnects, with {len(self._nodes[at].requests)} requests left"
        )

    async def crash(self, at: int) -> None:
        self._history.append(f"{at} crashes")
        self._producer.disconnect(at)
        self._nodes[at].logs.end_all()
        if at == self._leader:
            await self.lead(1 - at)
        self._nodes[at].restart()

    async def reopen(self, _: int) -> None:
        """The log fails, perhaps while a batch comes, and is opened again."""
        logs = self._nodes[self._leader].logs
        logs.open(ORDERS, LogConfig()).end(ErrorCode.kafka_storage_error)
        await self.serve(self._leader)
        opened = await logs.take(ORDERS, ID, LogConfig(), self._epoch, 0)
        for tell in logs.on_reopened:
            tell(opened)
        self._history.append(f"{self._leader} has opened its log again")

    async def settle(self, _: int) -> None:
        """All that was sent to the former leader has its response by now, or has timed out."""
        elsewhere = [batch for batch in self._producer.in_flight if batch.node != self._leader]
        if not elsewhere and not any(node.requests for node in self._nodes):
            self._nodes[self._leader].controller.replicas.end_transition(ORDERS)
            self._history.append(f"{self._leader} has settled")
            await self.refresh_metadata(0)


@pytest.mark.parametrize("seed", seeds(100))
async def test_batches_keep_their_order_while_the_partition_moves(seed: int) -> None:
    await History(seed).run()


@pytest.mark.parametrize("event", ["lead", "reopen"])
async def test_a_leader_that_is_settled_too_early_breaks_it(event: str) -> None:
    """`in_leader_transition` is False after a move, or is lost when a log is opened again."""

    async def run_all() -> None:
        for seed in range(1_000):
            await History(seed, settled_after=event).run()

    with pytest.raises(AssertionError, match="is not in order"):
        await run_all()
