"""A metadata log to which several nodes append: all know the same, and nothing is lost silently."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

import pytest

from kohort.cluster import FencedError, Leader, LeaderChanged, Logged, UnknownOutcomeError
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.server.config.resources import ResourceType
from kohort.server.metadata import (
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    SupersededError,
    TopicRecord,
)
from kohort.server.metadata_log.shared import COMPACTED_AFTER, OutcomeLostError, SharedMetadataLog
from kohort.types import Timestamp, TopicIdPartition
from server.metadata.test_image import content

NOW = Timestamp(1_700_000_000_000)


class FaultyStorage(MemoryStorage):
    """One whose appends may have an unknown outcome."""

    is_lost: list[bool]
    """Of the next appends, whether they were done."""
    on_lost: Callable[[], Awaitable[None]] = staticmethod(partial(asyncio.sleep, 0))
    """Awaited after each of them."""

    async def append(self, end_offset, batch, fences):  # type: ignore[no-untyped-def]
        lost = self.is_lost.pop(0) if self.is_lost else None
        done = False if lost is False else await super().append(end_offset, batch, fences)
        if lost is None:
            return done
        await self.on_lost()
        raise UnknownOutcomeError


class Nodes:
    """Two nodes of one cluster."""

    def __init__(self) -> None:
        self.shared = MemoryCluster(lambda: NOW)
        self.storages = [FaultyStorage(self.shared, node) for node in (1, 2)]
        self.metadata = [SharedMetadataLog(each, lambda: NOW) for each in self.storages]
        self.taken_back: list[list[UUID]] = []
        for storage in self.storages:
            storage.is_lost = []
        for metadata in self.metadata:
            metadata.on_rollback = lambda ids: self.taken_back.append(list(ids))

    async def settled(self) -> list[object]:
        """What all nodes know, which is the same."""
        for storage in self.storages:
            if storage.session < 0:
                await storage.claim()
        for metadata in self.metadata:
            await metadata.read_to_end()
        known = [content(each.state) for each in self.metadata]
        assert known[0] == known[1]
        assert len({each.end_offset for each in self.metadata}) == 1
        return [each.name for each in self.metadata[0].state.topics.values()]


@pytest.fixture
async def nodes() -> Nodes:
    made = Nodes()
    assert await made.settled() == []
    return made


def topic(number: int, name: str, partitions: int = 1) -> TopicRecord:
    return TopicRecord(id=UUID(int=number), name=name, partitions=partitions)


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
        lambda number: ConfigRecord(ResourceType.BROKER, "", {"a": str(number)}),
    ],
)
async def test_one_of_two_concurrent_changes_of_the_same_entity_is_rolled_back(
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


async def test_a_node_without_a_session_changes_no_metadata(nodes: Nodes) -> None:
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


async def test_a_decision_on_less_than_is_logged_is_not_appended(nodes: Nodes) -> None:
    one, two = nodes.metadata
    await one.decide(lambda: [topic(1, "a")])
    assert await two.decide(lambda: [topic(2, "b")], reads=False)
    assert nodes.shared.end_offset == 1
    assert await two.decide(lambda: [topic(2, "b")])
    assert await two.decide(lambda: [topic(3, "c")], reads=False)
    assert await nodes.settled() == ["a", "b", "c"]


async def test_decisions_are_made_on_all_that_is_logged(nodes: Nodes) -> None:
    place = TopicIdPartition(UUID(int=1), 0)

    async def lead(metadata: SharedMetadataLog) -> None:
        for _ in range(20):
            await metadata.decide(
                lambda: [
                    LeaderChanged(place, Leader(1, metadata.state.cluster.leader(place).epoch + 1))
                ]
            )

    await asyncio.gather(*map(lead, nodes.metadata))
    await nodes.settled()
    # Each that got in had read the one before.
    assert nodes.metadata[0].state.cluster.leaders[place].epoch == nodes.shared.end_offset - 1


async def test_a_node_behind_a_snapshot_misses_no_change(nodes: Nodes) -> None:
    one, two = nodes.metadata
    one.commit(topic(1, "a"), topic(2, "b"))
    await one.durable()
    await nodes.settled()
    followed: list[MetadataRecord] = []

    async def follow(records: Sequence[tuple[int, MetadataRecord]]) -> None:
        for offset, record in records:
            assert offset >= two.end_offset
            followed.append(record)
            two.replay(offset, record)

    two.follow = follow
    one.commit(RemoveTopicRecord(UUID(int=1)))
    one.commit(topic(3, "c"))
    one.commit(topic(3, "d"))
    await one.durable()
    await one.compact(min_records=0)
    one.commit(topic(4, "e"))
    await one.durable()
    assert await nodes.settled() == ["b", "d", "e"]
    assert followed == [RemoveTopicRecord(UUID(int=1)), topic(3, "d"), topic(4, "e")]
    assert len(nodes.shared.metadata) == 2
    two.commit(topic(5, "f"))
    await two.durable()
    assert await nodes.settled() == ["b", "d", "e", "f"]


async def test_a_snapshot_is_read_by_a_new_node(nodes: Nodes) -> None:
    one, _ = nodes.metadata
    for number in range(2_000):
        one.commit(topic(number, f"t{number}"))
        one.commit(RemoveTopicRecord(UUID(int=number - number % 10)))
    await one.durable()
    await one.compact()
    assert one.end_offset < COMPACTED_AFTER
    assert len(nodes.shared.metadata) == 4_000
    await one.compact(min_records=100)
    assert len(nodes.shared.metadata) < 20
    assert len(await nodes.settled()) == 1_800
    await one.compact(min_records=100)  # there is nothing to be done
    assert one.end_offset == nodes.shared.compacted == 4_000


async def test_a_snapshot_is_of_whole_batches(nodes: Nodes) -> None:
    one, two = nodes.metadata
    half_way, go_on = asyncio.Event(), asyncio.Event()

    async def follow(records: Sequence[tuple[int, MetadataRecord]]) -> None:
        for offset, record in records:
            two.replay(offset, record)
            half_way.set()
            await go_on.wait()

    two.follow = follow
    one.commit(topic(1, "a"), topic(2, "b"))
    await one.durable()
    reading = asyncio.create_task(two.read_to_end())
    await half_way.wait()
    compacting = asyncio.create_task(two.compact(min_records=0))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(reading, compacting)
    assert nodes.shared.compacted == one.end_offset == 2
    assert await nodes.settled() == ["a", "b"]


async def test_changes_of_who_lags_behind_a_snapshot_are_taken_back(nodes: Nodes) -> None:
    one, two = nodes.metadata
    one.commit(topic(1, "a"))
    await one.durable()
    await one.compact(min_records=0)
    two.commit(topic(2, "b"))
    with pytest.raises(SupersededError):
        await two.durable()
    two.commit(topic(2, "b"))
    await two.durable()
    assert await nodes.settled() == ["a", "b"]


async def test_an_append_of_unknown_outcome_may_be_compacted(nodes: Nodes) -> None:
    one, two = nodes.metadata
    nodes.storages[0].is_lost = [True]
    nodes.storages[0].on_lost = lambda: compacted(two)
    one.commit(topic(1, "a"))
    with pytest.raises(SupersededError):
        await one.durable()
    assert await nodes.settled() == ["a"]


async def test_a_decision_of_unknown_outcome_may_be_compacted(nodes: Nodes) -> None:
    one, two = nodes.metadata
    await two.change(lambda: [topic(2, "b")], lambda: None)
    nodes.storages[0].on_lost = lambda: compacted(two)
    for records in ([topic(1, "a")], [topic(1, "a", 3)], [RemoveTopicRecord(UUID(int=1))]):
        nodes.storages[0].is_lost = [True]
        assert await one.change(lambda: records, lambda: "done") == "done"  # noqa: B023
    assert await nodes.settled() == ["b"]


async def test_a_compacted_log_may_not_tell_whether_a_decision_was_logged(nodes: Nodes) -> None:
    one, two = nodes.metadata

    async def others() -> None:
        await two.change(lambda: [topic(2, "a")], lambda: None)
        await compacted(two)

    nodes.storages[0].is_lost = [False]
    nodes.storages[0].on_lost = others
    with pytest.raises(OutcomeLostError):
        await one.change(lambda: [topic(1, "a")], lambda: None)
    assert await nodes.settled() == ["a"]
    assert UUID(int=1) not in one.state.topics


async def test_an_earlier_snapshot_tells_nothing_of_a_later_append(nodes: Nodes) -> None:
    async def fenced() -> None:
        nodes.shared.fence(2)

    one, two = nodes.metadata
    await one.change(lambda: [topic(1, "a")], lambda: None)
    await compacted(one)
    await two.read_to_end()
    nodes.storages[1].is_lost = [False]
    nodes.storages[1].on_lost = fenced
    with pytest.raises(FencedError):
        await two.change(lambda: [topic(2, "b")], lambda: None)
    assert await nodes.settled() == ["a"]


@pytest.mark.parametrize("is_logged", [True, False])
@pytest.mark.parametrize("reads", [[], [OSError(None, "away")]])
async def test_an_append_of_unknown_outcome_is_resolved_after_the_session_is_lost(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, is_logged: bool, reads: list[OSError]
) -> None:
    async def fenced() -> None:
        nodes.shared.fence(1)
        unread.extend(reads)

    async def read(offset: int) -> Logged:
        if unread:
            raise unread.pop()
        return await MemoryStorage.read(storage, offset)

    one, storage = nodes.metadata[0], nodes.storages[0]
    unread: list[OSError] = []
    monkeypatch.setattr(storage, "read", read)
    storage.on_lost = fenced
    for number in (1, 2):
        storage.is_lost = [is_logged]
        name = f"name{number}"
        changed: Awaitable[None]
        if number == 1:
            changed = one.change(lambda: [topic(1, "name1")], lambda: None)
        else:
            one.commit(topic(2, "name2"))
            changed = one.durable()
        if is_logged:
            await changed
        else:
            with pytest.raises((FencedError, OSError)):
                await changed
        await storage.claim()
        assert (name in await nodes.settled()) is is_logged


async def test_a_cancelled_caller_leaves_no_record_done_by_half(nodes: Nodes) -> None:
    one, two = nodes.metadata
    begun, gate, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def follow(records: Sequence[tuple[int, MetadataRecord]]) -> None:
        for offset, record in records:
            one.replay(offset, record)
            begun.set()
            await gate.wait()
            done.append(str(record))

    one.follow = follow
    await two.change(lambda: [topic(1, "a")], lambda: None)
    for read in (one.read_to_end, one.read_next, partial(one.decide, lambda: ())):
        caller = asyncio.create_task(read())
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        gate.set()
        assert await one.change(list, lambda: len(done)) == one.end_offset
        begun.clear()
        gate.clear()
        await two.change(lambda: [topic(two.end_offset, f"b{two.end_offset}")], lambda: None)


async def compacted(metadata: SharedMetadataLog) -> None:
    await metadata.read_to_end()
    await metadata.compact(min_records=0)
