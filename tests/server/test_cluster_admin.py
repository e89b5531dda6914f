"""What an operator does with nodes, whose own processes do nothing here."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from kohort.cluster import Leader, NodeRegistered, PartitionLed, Place
from kohort.errors import KohortError
from kohort.log.shared_memory import MemoryStorage, SharedMemory
from kohort.server.cluster_admin import ClusterAdmin
from kohort.server.topics import MetadataRecord, SharedMetadata, TopicRecord
from kohort.types import Timestamp

NOW = Timestamp(1_700_000_000_000)
TOPIC = TopicRecord(id=UUID(int=1), name="orders", partitions=1)
PLACE = Place(TOPIC.id, 0)


def registered(node: int, session: int) -> NodeRegistered:
    return NodeRegistered(node, session, (), NOW)


class Node:
    """Node 1, which leads the only partition, and does what the test says."""

    def __init__(self) -> None:
        self.shared = SharedMemory(lambda: NOW)
        self._storage = MemoryStorage(self.shared, 1)
        self.metadata = SharedMetadata(self._storage, lambda: NOW)

    async def start(self) -> None:
        await self._storage.claim()
        await self.log(TOPIC, registered(1, 1), registered(2, 1), PartitionLed(PLACE, Leader(1, 0)))

    async def log(self, *records: MetadataRecord) -> None:
        await self.metadata.decide(lambda: records)

    async def until_planned(self) -> None:
        """Return when an operator has planned something."""
        cluster = self.metadata.state.cluster
        while not (cluster.nodes[1].is_draining or cluster.moves):
            await self.metadata.read_on()
            await asyncio.sleep(0)


class Overtaken(MemoryStorage):
    """The storage of an operator: the node appends right before the operator's first append."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.shared, 3)
        self._node: Node | None = node

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        node, self._node = self._node, None
        if node is not None:
            await node.log(registered(2, 2))
        return await super().append(end_offset, batch, fences)


@pytest.fixture
async def node() -> Node:
    node = Node()
    await node.start()
    return node


async def test_a_drain_ends_when_the_node_is_started_again(node: Node) -> None:
    admin = ClusterAdmin(MemoryStorage(node.shared, 3))
    draining = asyncio.create_task(admin.drain(1))
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(registered(1, 2))
        with pytest.raises(KohortError, match="node 1 was started again"):
            await draining


async def test_what_is_not_there_is_refused_by_what_there_is(node: Node) -> None:
    admin = ClusterAdmin(MemoryStorage(node.shared, 3))
    with pytest.raises(KohortError, match="there is no node 9, only 1, 2"):
        await admin.drain(9)
    with pytest.raises(KohortError, match="there is no node 9, only 1, 2"):
        await admin.move("orders", 0, 9)
    with pytest.raises(KohortError, match="orders has no partition 1, only 0 to 0"):
        await admin.move("orders", 1, 2)
    with pytest.raises(KohortError, match="there is no topic nothing"):
        await admin.move("nothing", 0, 2)


async def test_a_drain_that_another_append_comes_before(node: Node) -> None:
    draining = asyncio.create_task(ClusterAdmin(Overtaken(node)).drain(1))
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(PartitionLed(PLACE, Leader(2, 1)))
        await draining


async def test_a_move_that_another_append_comes_before(node: Node) -> None:
    moving = asyncio.create_task(ClusterAdmin(Overtaken(node)).move("orders", 0, 2))
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(PartitionLed(PLACE, Leader(2, 1)))
        await moving
