"""What the runtime keeps and writes at once, and what of it is bounded."""

from kohort.coordinator.config import GroupCoordinatorConfig
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
from kohort.runtime import expiration
from kohort.runtime.group_log import append_records
from kohort.runtime.journal import Journal
from kohort.types import Instant, Timestamp
from runtime.fake_log import FakeLog


def test_tombstones_of_very_many_offsets_are_divided_into_batches():
    log = FakeLog()
    log.config = LogConfig(segment_bytes=1 << 20)
    records = [OffsetCommitRecord(OffsetCommitKey("g" * 30_000, "t", n), None) for n in range(100)]
    append_records(log, [records], Timestamp(0))
    assert len(log.batches) > 1
    assert max(map(len, log.batches)) < 1 << 20


def test_the_journal_is_bounded_in_all():
    journal = Journal(characters=10_000)
    for n in range(20):
        journal.append(rebalance(f"g{n % 2}", reason="r" * 1_000))
    assert len(journal.of("g0")) + len(journal.of("g1")) == 9
    journal.append(rebalance("huge", reason="r" * 20_000))
    assert journal.of("huge") == ()
    journal.append(rebalance("g0"))
    assert len(journal.of("g0")) == 1
    assert journal.characters == journal.of("g0")[0].characters


def test_the_journal_keeps_the_latest_entries_of_the_latest_groups():
    journal = Journal(groups=2, entries=3)
    for n in range(5):
        journal.append(rebalance("a", reason=str(n)))
    assert [entry.causes[0].reason for entry in journal.of("a")] == ["2", "3", "4"]
    for group in ("b", "a", "c"):
        journal.append(rebalance(group))
    assert (len(journal.of("a")), journal.of("b"), len(journal.of("c"))) == (3, (), 1)
    assert journal.characters == sum(
        entry.characters for group in ("a", "c") for entry in journal.of(group)
    )


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


def test_the_check_for_expiry_is_divided_into_turns():
    shard = Shard(GroupCoordinatorConfig())
    for n in range(30):
        values = [pack_offset(1, -1, "", 0, NO_TIMESTAMP, None)] * 1_000
        shard.replay(OffsetCommits(f"g{n}", "t", list(range(1_000)), values))
    turns = list(expiration.turns(shard.groups.values()))
    assert [each for turn in turns for each in turn.groups] == list(shard.groups)
    assert max(len(turn.groups) for turn in turns) == 4
    result = shard.handle(ExpireOffsets(("g0", "gone")), Instant(0), Timestamp(10**12))
    assert {record.key.group for record in result.records} == {"g0"}
