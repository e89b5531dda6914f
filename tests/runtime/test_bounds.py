"""What the runtime keeps and writes at once, and what of it is bounded."""

from kohort.coordinator.config import GroupConfig
from kohort.coordinator.journal import Cause, Rebalance
from kohort.coordinator.records import (
    NO_TIMESTAMP,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommits,
    pack_offset,
)
from kohort.coordinator.requests import ExpireOffsets
from kohort.coordinator.shard import Shard
from kohort.log.base import LogConfig
from kohort.runtime import groups as groups_room
from kohort.runtime.clock import SystemClock
from kohort.runtime.group_log import append_records
from kohort.runtime.groups import Groups
from kohort.types import Instant, Timestamp
from runtime.fake_log import FakeLog


def test_tombstones_of_very_many_offsets_are_divided_into_batches():
    log = FakeLog()
    log.config = LogConfig(segment_bytes=1 << 20)
    records = [OffsetCommitRecord(OffsetCommitKey("g" * 30_000, "t", n), None) for n in range(100)]
    append_records(log, [records], Timestamp(0))
    assert len(log.batches) > 1
    assert max(map(len, log.batches)) < 1 << 20


def test_the_journal_is_bounded_in_all(monkeypatch):
    monkeypatch.setattr(groups_room, "_JOURNAL_CHARACTERS", 10_000)
    groups = Groups((), GroupConfig(), SystemClock())
    for n in range(20):
        groups._ended(rebalance(f"g{n % 2}", reason="r" * 1_000))
    assert len(groups.journal("g0")) + len(groups.journal("g1")) == 9
    groups._ended(rebalance("huge", reason="r" * 20_000))
    assert groups.journal("huge") == ()
    groups._ended(rebalance("g0"))
    assert len(groups.journal("g0")) == 1
    assert groups._journal_characters == groups.journal("g0")[0].characters


def rebalance(group, reason=""):
    cause = Cause("joined", "m", "c", reason)
    return Rebalance(
        group=group,
        generation=1,
        causes=(cause,),
        outcome="stable",
        started=Timestamp(0),
        joined=None,
        ended=Timestamp(1),
        members=("m",),
    )


def test_the_check_for_expiry_is_done_in_parts():
    shard = Shard(GroupConfig())
    for n in range(30):
        values = [pack_offset(1, -1, "", 0, NO_TIMESTAMP, None)] * 1_000
        shard.replay(OffsetCommits(f"g{n}", "t", list(range(1_000)), values))
    parts = list(groups_room._parts(shard.groups.values()))
    assert [each for part in parts for each in part] == list(shard.groups)
    assert max(map(len, parts)) == 4
    result = shard.handle(ExpireOffsets(("g0", "gone")), Instant(0), Timestamp(10**12))
    assert {record.key.group for record in result.records} == {"g0"}
