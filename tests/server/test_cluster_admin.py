"""What an operator does with nodes, whose own processes do nothing here."""

import asyncio
from uuid import UUID

import pytest

from kohort.cluster import Leader, NodeRegistered, PartitionLed, Place
from kohort.errors import KohortError
from kohort.log.shared_memory import MemoryStorage, SharedMemory
from kohort.server.cluster_admin import ClusterAdmin
from kohort.server.topics import MetadataRecord, SharedMetadata
from kohort.types import Timestamp

NOW = Timestamp(1_700_000_000_000)
PLACE = Place(UUID(int=1), 0)


def registered(node: int, session: int) -> NodeRegistered:
    return NodeRegistered(node, session, (), NOW)


async def test_a_drain_ends_when_the_node_is_started_again() -> None:
    shared = SharedMemory(lambda: NOW)
    storage = MemoryStorage(shared, 1)
    await storage.claim()
    metadata = SharedMetadata(storage, lambda: NOW)

    async def log(*records: MetadataRecord) -> None:
        await metadata.decide(lambda: records)

    await log(registered(1, 1), registered(2, 1), PartitionLed(PLACE, Leader(1, 0)))
    admin = ClusterAdmin(MemoryStorage(shared, 3))
    draining = asyncio.create_task(admin.drain(1))
    while not metadata.state.cluster.nodes[1].is_draining:
        await metadata.read_on()
        await asyncio.sleep(0)
    await log(registered(1, 2))
    with pytest.raises(KohortError, match="node 1 was started again"):
        async with asyncio.timeout(60):
            await draining
