"""Nodes on the clocks of a test: what they lead, and a simulation in which all of them fail."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import pytest

from effort import examples
from kohort.cluster import LEASE_MS, FencedError, ReassignmentPlanned, UnknownOutcomeError
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import Log
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.log.standby import StandbyLog
from kohort.protocol import batches
from kohort.protocol.batches import Record, iterate
from kohort.server.cluster.handover import READY_TIMEOUT_MS
from kohort.server.controller import NewPartitions, NewTopic
from kohort.server.replicas import SharedReplicaManager, Topic
from kohort.testing.nodes import START, Node, Nodes
from kohort.types import TopicIdPartition

COORDINATORS = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 2}
PARTITIONS = 4


async def test_partitions_of_a_crashed_node_are_led_by_others_with_all_records() -> None:
    cluster = Nodes(**COORDINATORS)
    one, two = await cluster.start(1), await cluster.start(2)
    await one.controller.topics.create_topics([NewTopic("orders", PARTITIONS)])
    await cluster.advance(500)
    led = {
        node: len([p for p in node.controller.replicas.led_epochs if p.topic == "orders"])
        for node in (one, two)
    }
    assert led == {one: 2, two: 2}
    for partition in range(PARTITIONS):
        leader = await cluster.leader("orders", partition)
        cluster.nodes[leader.node].log("orders", partition).append(batch(partition), START)
    cluster.crash(1)
    await cluster.advance(500)
    assert {(await cluster.leader("orders", at)).node for at in range(PARTITIONS)} == {2}
    for partition in range(PARTITIONS):
        assert read(two, partition) == [b"%d" % partition]
    await cluster.start(1)
    await cluster.advance(60_000, step_ms=1_000)
    assert {(await cluster.leader("orders", at)).node for at in range(PARTITIONS)} == {1, 2}


async def test_nodes_decide_once_on_what_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Nodes(**COORDINATORS)
    for node_id in (1, 2):
        await cluster.start(node_id)
    await cluster.advance(60_000, step_ms=1_000)
    monkeypatch.delattr(SharedReplicaManager, "topic_sizes")
    await cluster.advance(5_000)
    monkeypatch.undo()
    cluster.crash(1)
    await cluster.advance(5_000)
    led = cluster.nodes[2].controller.replicas.led_epochs
    assert len(led) == 3 + 2


async def test_topics_that_grow_together_take_few_batches() -> None:
    cluster = Nodes(**COORDINATORS)
    one, two = await cluster.start(1), await cluster.start(2)
    names = [f"topic-{number}" for number in range(300)]
    await one.controller.topics.create_topics([NewTopic(name, 1) for name in names])
    await cluster.advance(1_000)
    before = len(cluster.shared.metadata)
    wanted = [NewPartitions(name, 2) for name in names]
    grown = await one.controller.topics.create_partitions([*wanted, NewPartitions("unknown", 2)])
    assert all(isinstance(each, Topic) for each in grown[:-1])
    codes = [each.code for each in grown if isinstance(each, KafkaError)]
    assert codes == [ErrorCode.unknown_topic_or_partition]
    assert len(cluster.shared.metadata) - before <= 2
    await cluster.advance(1_000)
    assert {len(topic.partitions) for name in names if (topic := two.topics.get(name))} == {2}


class SilentStorage(MemoryStorage):
    """A database that answers no append, and whose answers may be lost."""

    def __init__(self, shared: MemoryCluster, node_id: int) -> None:
        super().__init__(shared, node_id)
        self.answers = asyncio.Event()
        self.answers.set()

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        appended = await super().append(end_offset, batch, fences)
        if not self.answers.is_set():
            await self.answers.wait()
            raise UnknownOutcomeError
        return appended


async def test_a_change_times_out_and_is_settled_before_the_next_one() -> None:
    cluster = Nodes(storage=SilentStorage, **COORDINATORS)
    one = await cluster.start(1)
    assert isinstance(one.storage, SilentStorage)
    one.storage.answers.clear()
    changes = [one.controller.topics.create_topics([NewTopic("orders", n)], soon()) for n in (1, 2)]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)] == [
        ErrorCode.request_timed_out
    ] * 2
    with pytest.raises(KafkaError) as late:
        await one.controller.writer.change(one.controller.topics.delete_topics(["orders"]), soon())
    assert late.value.code is ErrorCode.request_timed_out
    await one.controller.writer.catch_up(soon())
    third = asyncio.create_task(one.controller.topics.create_topics([NewTopic("orders", 3)]))
    one.storage.answers.set()
    (refused,) = await third
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.topic_already_exists
    topic = one.topics.get("orders")
    assert topic is not None
    assert len(topic.partitions) == 1  # later ones had not begun


def soon() -> float:
    return asyncio.get_running_loop().time() + 0.05


async def test_a_planned_move_raises_the_epoch() -> None:
    cluster = Nodes(**COORDINATORS)
    one, two = await cluster.start(1), await cluster.start(2)
    await one.controller.topics.create_topics([NewTopic("orders", 1)])
    await cluster.advance(500)
    former = await cluster.leader("orders", 0)
    topic = one.topics.get("orders")
    assert topic is not None
    await one.metadata.decide(
        lambda: [ReassignmentPlanned(TopicIdPartition(topic.id, 0), 3 - former.node)]
    )
    await cluster.advance(1_000)  # one node hands it over, the other takes it
    assert await cluster.leader("orders", 0) == (3 - former.node, former.epoch + 1)
    node = {1: one, 2: two}[3 - former.node]
    assert node.log("orders", 0).leader_epoch == former.epoch + 1


async def test_a_next_leader_that_is_never_ready_gets_the_partition_all_the_same() -> None:
    cluster = Nodes(**COORDINATORS)
    for node_id in (1, 2):
        node = await cluster.start(node_id)
        node.storage.logs.on_reopened.append(begin_reading)
    await cluster.nodes[1].controller.topics.create_topics([NewTopic("orders", 1)])
    await cluster.advance(500)
    former = await cluster.leader("orders", 0)
    topic = node.topics.get("orders")
    assert topic is not None
    place = TopicIdPartition(topic.id, 0)
    await node.metadata.decide(lambda: [ReassignmentPlanned(place, 3 - former.node)])
    await cluster.advance(READY_TIMEOUT_MS, step_ms=1_000)
    assert await cluster.leader("orders", 0) == former
    assert cluster.nodes[former.node].log("orders", 0).leader_epoch == former.epoch
    await cluster.advance(2_000, step_ms=1_000)
    assert await cluster.leader("orders", 0) == (3 - former.node, former.epoch + 1)


def begin_reading(log: Log) -> None:
    """Read what is to be led next, without an end."""
    if isinstance(log, StandbyLog):
        log.begin_reading()


def batch(value: int) -> bytes:
    return batches.build([Record(None, b"%d" % value)])


def read(node: Node, partition: int) -> list[bytes]:
    data = node.log("orders", partition).read(0, 1 << 20)
    values = []
    for position, _ in iterate(data):
        values += [bytes(record.value or b"") for record in batches.decode_records(data, position)]
    return values


class NodeSimulation:
    """Nodes that crash, hang and come back while producers append; no acknowledged one is lost."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Nodes(**COORDINATORS)
        self.hung: dict[int, float] = {}
        """Until when nodes do not tick."""
        self.acknowledged: dict[int, list[bytes]] = {at: [] for at in range(PARTITIONS)}
        self.sent = 0
        self.reading: list[StandbyLog] = []
        """What is read before it is led, and not yet to the end."""

    async def run(self, steps: int) -> None:
        await self.start(1)
        await self.cluster.nodes[1].controller.topics.create_topics(
            [NewTopic("orders", PARTITIONS)]
        )
        for _ in range(steps):
            await self.step()
        self.hung.clear()
        for log in self.reading:
            log.end_reading()
        for node_id in (1, 2, 3):
            if node_id not in self.cluster.nodes:
                self.cluster.elapsed_ms += LEASE_MS + 1
                await self.cluster.start(node_id)
        await self.cluster.advance(120_000, step_ms=1_000)
        await self.check()

    async def step(self) -> None:
        random = self.random
        self.cluster.elapsed_ms += random.expovariate(1 / 40)
        node_id = random.randint(1, 3)
        node = self.cluster.nodes.get(node_id)
        match random.random():
            case x if node is None:
                if x < 0.2:
                    await self.start(node_id)
            case x if x < 0.01:
                self.cluster.crash(node_id)
            case x if x < 0.02:
                self.hung[node_id] = self.cluster.elapsed_ms + random.expovariate(1 / 4_000)
            case x if x < 0.04:
                await self.move(node)
            case x if x < 0.3:
                if self.hung.get(node_id, 0) <= self.cluster.elapsed_ms:
                    await node.tick()
            case _:
                await self.produce(node)

    async def start(self, node_id: int) -> None:
        try:
            node = await self.cluster.start(node_id, rate=self.random.uniform(0.997, 1.003))
        except KohortError:
            assert node_id in self.cluster.shared.rows
        else:
            node.storage.logs.on_reopened.append(self.read)

    def read(self, log: Log) -> None:
        """Begin to read what is to be led next, which may take long."""
        if isinstance(log, StandbyLog):
            log.begin_reading()
            self.reading.append(log)

    async def move(self, node: Node) -> None:
        """Plan a move of a partition, call one off, or have one that was planned read."""
        if self.reading and self.random.random() < 0.5:
            self.reading.pop(self.random.randrange(len(self.reading))).end_reading()
            return
        topic, to = node.topics.get("orders"), self.random.choice((None, 1, 2, 3))
        if topic is not None:
            planned = ReassignmentPlanned(
                TopicIdPartition(topic.id, self.random.randrange(PARTITIONS)), to
            )
            with suppress(FencedError):
                await node.metadata.decide(lambda: [planned])

    async def produce(self, node: Node) -> None:
        """Append through whichever node a client believes in, also one that hangs."""
        partition = self.random.randrange(PARTITIONS)
        topic = node.topics.get("orders")
        if topic is None:
            return
        self.sent += 1
        try:
            node.log("orders", partition).append(batch(self.sent), node.clock.timestamp())
        except KafkaError:
            return
        self.acknowledged[partition].append(b"%d" % self.sent)
        leader = await self.cluster.leader("orders", partition)
        assert leader.node == node.id, f"{node.id} appends to what {leader} leads"
        assert node.log("orders", partition).leader_epoch == leader.epoch

    async def check(self) -> None:
        for partition, values in self.acknowledged.items():
            leader = await self.cluster.leader("orders", partition)
            node = self.cluster.nodes[leader.node]
            assert read(node, partition) == values
            log = node.log("orders", partition)
            epochs = [header.partition_leader_epoch for _, header in iterate(log.read(0, 1 << 20))]
            assert epochs == sorted(epochs)
            for other in self.cluster.nodes.values():
                assert (other.log("orders", partition).leader_epoch >= 0) is (other is node)
        counts = sorted(
            sum(partition.topic == "orders" for partition in node.controller.replicas.led_epochs)
            for node in self.cluster.nodes.values()
        )
        assert counts == [1, 1, 2]


@pytest.mark.parametrize("seed", range(examples(3)))
async def test_no_acknowledged_record_is_lost_in_a_simulation_of_failing_nodes(seed: int) -> None:
    simulation = NodeSimulation(seed)
    await simulation.run(1_500)
    assert sum(map(len, simulation.acknowledged.values())) > 100
