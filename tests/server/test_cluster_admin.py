"""What an operator does with nodes, whose own processes do nothing here."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from kohort.cluster import (
    FencedError,
    Leader,
    LeaderChanged,
    Logged,
    NodeRegistered,
    ReassignmentPlanned,
    UnknownOutcomeError,
)
from kohort.errors import KohortError
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.protocol.batches import Record, build
from kohort.server.cluster_admin import ClusterAdmin
from kohort.server.metadata import MetadataRecord, TopicRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.types import Timestamp, TopicIdPartition

NOW = Timestamp(1_700_000_000_000)
TOPIC = TopicRecord(id=UUID(int=1), name="orders", partitions=1)
PLACE = TopicIdPartition(TOPIC.id, 0)


def registered(node: int, session: int) -> NodeRegistered:
    return NodeRegistered(node, session, (), NOW)


class Node:
    """Node 1, which leads the only partition, and does what the test says. Node 2 does nothing."""

    def __init__(self) -> None:
        self.shared = MemoryCluster(lambda: NOW)
        self._storage = MemoryStorage(self.shared, 1)
        self.metadata = SharedMetadataLog(self._storage, lambda: NOW)

    async def start(self) -> None:
        await self._storage.claim()
        await MemoryStorage(self.shared, 2).claim()
        await self.log(
            TOPIC, registered(1, 1), registered(2, 1), LeaderChanged(PLACE, Leader(1, 0))
        )

    async def log(self, *records: MetadataRecord) -> None:
        await self.metadata.decide(lambda: records)

    async def until_planned(self) -> None:
        """Return when an operator has planned something."""
        cluster = self.metadata.state.cluster
        while not (cluster.nodes[1].is_draining or cluster.moves):
            await self.metadata.read_to_end()
            await asyncio.sleep(0)


class Overtaken(MemoryStorage):
    """The storage of an operator: the node appends right before the operator's first append."""

    def __init__(self, node: Node, record: MetadataRecord) -> None:
        """`record` is what the node appends."""
        super().__init__(node.shared, 3)
        self._node: Node | None = node
        self._record = record

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        node, self._node = self._node, None
        if node is not None:
            await node.log(self._record)
        return await super().append(end_offset, batch, fences)


class Fenced(MemoryStorage):
    """The storage of an operator, whose session another one ends."""

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        raise FencedError


class Failing(MemoryStorage):
    """The storage of an operator, which is away once the operator has appended."""

    has_appended = False
    failures = 3

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        self.has_appended = True
        return await super().append(end_offset, batch, fences)

    async def release(self) -> None:
        raise UnknownOutcomeError("the connection was lost")

    async def read(self, offset: int) -> Logged:
        if self.has_appended and self.failures:
            self.failures -= 1
            raise UnknownOutcomeError("the connection was lost")
        return await super().read(offset)


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


async def test_unknown_nodes_and_partitions_are_refused_with_the_known_ones(node: Node) -> None:
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
    draining = asyncio.create_task(ClusterAdmin(Overtaken(node, registered(2, 2))).drain(1))
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(LeaderChanged(PLACE, Leader(2, 1)))
        await draining


async def test_a_move_that_another_append_comes_before(node: Node) -> None:
    moving = asyncio.create_task(
        ClusterAdmin(Overtaken(node, registered(2, 2))).move("orders", 0, 2)
    )
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(LeaderChanged(PLACE, Leader(2, 1)))
        await moving


async def test_operators_do_not_drain_all_nodes_together(node: Node) -> None:
    drained = replace(registered(2, 1), is_draining=True)
    with pytest.raises(KohortError, match="no other node takes what node 1 leads"):
        await ClusterAdmin(Overtaken(node, drained)).drain(1)
    await node.metadata.read_to_end()
    assert not node.metadata.state.cluster.nodes[1].is_draining


async def test_no_partition_moves_to_a_node_that_another_operator_drains(node: Node) -> None:
    drained = replace(registered(2, 1), is_draining=True)
    with pytest.raises(KohortError, match="node 2 is drained"):
        await ClusterAdmin(Overtaken(node, drained)).move("orders", 0, 2)
    await node.metadata.read_to_end()
    assert not node.metadata.state.cluster.moves


async def test_a_session_that_another_operator_ends(node: Node) -> None:
    with pytest.raises(KohortError, match="another operator changes the cluster now: try again"):
        await ClusterAdmin(Fenced(node.shared, 3)).drain(1)


async def test_nodes_that_are_gone_take_nothing(node: Node) -> None:
    """No node is left that could fence them."""
    admin = ClusterAdmin(MemoryStorage(node.shared, 3))
    node.shared.crash(2)
    with pytest.raises(KohortError, match="no other node takes what node 1 leads"):
        await admin.drain(1)
    with pytest.raises(KohortError, match="node 2 is gone: start it, or name another one"):
        await admin.move("orders", 0, 2)
    await node.metadata.read_to_end()
    assert not node.metadata.state.cluster.nodes[1].is_draining
    assert not node.metadata.state.cluster.moves


async def test_a_partition_stays_where_it_is_if_it_is_moved_there(node: Node) -> None:
    await node.log(ReassignmentPlanned(PLACE, 2))
    await ClusterAdmin(MemoryStorage(node.shared, 3)).move("orders", 0, 1)
    await node.metadata.read_to_end()
    assert not node.metadata.state.cluster.moves


async def test_a_drain_goes_on_when_the_storage_was_away(node: Node) -> None:
    storage = Failing(node.shared, 3)
    draining = asyncio.create_task(ClusterAdmin(storage).drain(1))
    async with asyncio.timeout(60):
        await node.until_planned()
        await node.log(LeaderChanged(PLACE, Leader(2, 1)))
        await draining
    assert not storage.failures


async def test_a_record_of_a_later_version_is_told(node: Node) -> None:
    end_offset = node.shared.end_offset
    node.shared.append(end_offset.to_bytes(8) + build([Record(b'{"zone":"x"}', b"{}")])[8:])
    with pytest.raises(KohortError, match=f"the record at offset {end_offset} is of the unknown"):
        await ClusterAdmin(MemoryStorage(node.shared, 3)).nodes()
