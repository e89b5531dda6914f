"""A metadata log to which several nodes append: all know the same, and nothing is lost silently."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from kohort.cluster import FencedError, Leader, PartitionLed, Place, UnknownOutcomeError
from kohort.log.shared_memory import MemoryStorage, SharedMemory
from kohort.server.config.resources import ResourceType
from kohort.server.topics.cluster_metadata import ConfigsRecord, MetadataRecord, TopicRecord
from kohort.server.topics.metadata_log import SupersededError
from kohort.server.topics.shared_metadata import SharedMetadata
from kohort.types import Timestamp
from server.topics.test_topics import content

NOW = Timestamp(1_700_000_000_000)


class FaultyStorage(MemoryStorage):
    """One whose appends may have an unknown outcome."""

    is_lost: list[bool]
    """Of the next appends, whether they were done."""

    async def append(self, end_offset, batch, fences):  # type: ignore[no-untyped-def]
        lost = self.is_lost.pop(0) if self.is_lost else None
        done = False if lost is False else await super().append(end_offset, batch, fences)
        if lost is None:
            return done
        raise UnknownOutcomeError


class Nodes:
    """Two nodes of one cluster."""

    def __init__(self) -> None:
        self.shared = SharedMemory(lambda: NOW)
        self.storages = [FaultyStorage(self.shared, node) for node in (1, 2)]
        self.metadata = [SharedMetadata(each, lambda: NOW) for each in self.storages]
        self.taken_back: list[list[UUID]] = []
        for storage in self.storages:
            storage.is_lost = []
        for metadata in self.metadata:
            metadata.on_taken_back = lambda ids: self.taken_back.append(list(ids))

    async def settled(self) -> list[object]:
        """What all nodes know, which is the same."""
        for storage in self.storages:
            if storage.session < 0:
                await storage.claim()
        for metadata in self.metadata:
            await metadata.read_on()
        known = [content(each.state) for each in self.metadata]
        assert known[0] == known[1]
        assert len({each.end_offset for each in self.metadata}) == 1
        return [each.name for each in self.metadata[0].state.topics.values()]


@pytest.fixture
async def nodes() -> Nodes:
    made = Nodes()
    assert await made.settled() == []
    return made


def topic(number: int, name: str) -> TopicRecord:
    return TopicRecord(id=UUID(int=number), name=name, partitions=1)


async def test_changes_of_different_things_stay(nodes: Nodes) -> None:
    one, two = nodes.metadata
    one.commit(topic(1, "a"))
    two.commit(topic(2, "b"), topic(3, "c"))
    one.commit(topic(4, "d"))
    await asyncio.gather(one.durable(), two.durable())
    assert sorted(await nodes.settled()) == ["a", "b", "c", "d"]
    assert not nodes.taken_back


@pytest.mark.parametrize(
    "change",
    [
        lambda number: topic(number, "a"),
        lambda number: topic(7, f"name{number}"),
        lambda number: ConfigsRecord(ResourceType.BROKER, "", {"a": str(number)}),
    ],
)
async def test_of_two_changes_of_the_same_thing_one_is_taken_back(
    nodes: Nodes, change: Callable[[int], MetadataRecord]
) -> None:
    one, two = nodes.metadata
    one.commit(change(1))
    await one.durable()
    two.commit(topic(9, "before"))
    two.commit(change(2))
    two.commit(topic(10, "after"))
    with pytest.raises(SupersededError):
        await two.durable()
    await nodes.settled()
    assert len(nodes.taken_back) == 1
    two.commit(change(2))
    await two.durable()


@pytest.mark.parametrize("is_lost", [[True], [False], [False, True], [False, False]])
async def test_an_append_whose_outcome_is_unknown_is_made_once(
    nodes: Nodes, is_lost: list[bool]
) -> None:
    one, two = nodes.metadata
    nodes.storages[0].is_lost = is_lost
    one.commit(topic(1, "a"))
    two.commit(topic(2, "b"))
    await asyncio.gather(one.durable(), two.durable())
    assert sorted(await nodes.settled()) == ["a", "b"]
    assert nodes.shared.end_offset == 2


async def test_who_has_lost_the_session_changes_nothing(nodes: Nodes) -> None:
    one, two = nodes.metadata
    nodes.shared.fence(1)
    one.commit(topic(1, "a"))
    with pytest.raises(OSError, match="session"):
        await one.durable()
    with pytest.raises(FencedError):
        await one.decide(lambda: [topic(1, "a")])
    two.commit(topic(2, "b"))
    await two.durable()
    assert await nodes.settled() == ["b"]


async def test_decisions_are_made_on_all_that_is_logged(nodes: Nodes) -> None:
    place = Place(UUID(int=1), 0)

    async def lead(metadata: SharedMetadata) -> None:
        for _ in range(20):
            await metadata.decide(
                lambda: [
                    PartitionLed(place, Leader(1, metadata.state.cluster.leader(place).epoch + 1))
                ]
            )

    await asyncio.gather(*map(lead, nodes.metadata))
    await nodes.settled()
    # Each that got in had read the one before.
    assert nodes.metadata[0].state.cluster.leaders[place].epoch == nodes.shared.end_offset - 1
