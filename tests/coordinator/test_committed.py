"""Committed offsets of one group: a snapshot stays as it was, and costs no copy of them."""

import tracemalloc

import pytest

from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.records import pack_offset
from kohort.types import Timestamp, TopicPartition

VALUES = [pack_offset(offset, -1, "", Timestamp(1), -1, None) for offset in range(10)]
TOPICS = ["a", "b", "c"]


def stored() -> CommittedOffsets:
    offsets = CommittedOffsets()
    for topic in TOPICS:
        offsets.store(topic, range(10), VALUES)
    return offsets


@pytest.mark.parametrize("changes", [1, 2])
def test_a_snapshot_stays_as_it_was(changes: int) -> None:
    offsets = stored()
    before = dict(offsets)
    snapshots = []
    for change in range(changes):
        snapshots.append((offsets.snapshot(), dict(offsets)))
        offsets.store("a", [change], [VALUES[9]])
        offsets.store("new", range(10), VALUES)
        offsets.discard("b", change)
        assert len(list(offsets.remove_some(11))) == 11
    assert dict(snapshots[0][0]) == before
    for snapshot, then in snapshots:
        assert dict(snapshot) == then
    assert offsets[TopicPartition("a", 0)].offset == 9
    assert TopicPartition("b", 0) not in offsets


def test_a_topic_that_was_removed_and_is_back_is_not_that_of_the_snapshot() -> None:
    offsets = stored()
    snapshot = offsets.snapshot()
    for partition in range(10):
        offsets.discard("a", partition)
    offsets.store("a", [1], [VALUES[7]])
    assert snapshot[TopicPartition("a", 1)].offset == 1
    assert [each.partition for each in offsets if each.topic == "a"] == [1]


def test_a_snapshot_copies_no_offsets() -> None:
    offsets = CommittedOffsets()
    for topic in range(10):
        offsets.store(f"t{topic}", range(10_000), VALUES * 1_000)
    tracemalloc.start()
    try:
        snapshot = offsets.snapshot()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(snapshot) == 100_000
    assert most < 100_000
