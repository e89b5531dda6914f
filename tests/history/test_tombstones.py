"""Why offsets were deleted, by what is around their tombstones in the log."""

from typing import Any

import pytest

from history.offset_logs import LOG_PARTITION, START_MS, batch_of
from history.test_commit_fold import Folded
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
    new_empty_group_record,
)
from kohort.history.group_fold import GroupFold, GroupOptions
from kohort.protocol.subscription import Subscription, encode_subscription

DAY = 24 * 3_600_000
RETENTION = 7 * DAY


class Log:
    """Writes batches, one at each call."""

    def __init__(self, start: int = 0) -> None:
        self.records: list[dict[str, Any]] = []
        self.next = start

    def write(self, at: int, *rows: Any) -> "Log":
        """`at`: ms behind the start."""
        batch = self.next
        for row in rows:
            key, value = encode(row)
            self.records.append(
                {
                    "key": key,
                    "value": value,
                    "partition": LOG_PARTITION,
                    "offset": self.next,
                    "batchOffset": batch,
                    "transactional": False,
                    "timestamp": (START_MS + at) * 1000,
                }
            )
            self.next += 1
        return self

    def causes(self, *, is_over: bool = True) -> list[str | None]:
        if is_over:
            last = self.records[-1]["timestamp"] // 1000 - START_MS
            self.write(last + 10_001, commit("last", "last", last))
        rows = Folded([batch_of(self.records)]).rows("commits", with_open=not is_over)
        rows.sort(key=lambda row: row["log_offset"])
        return [row["cause"] for row in rows if row["kind"] == "tombstone"]


def commit(group: str, topic: str, at: int, partition: int = 0) -> OffsetCommitRecord:
    value = OffsetCommitValue(1, -1, "", START_MS + at)
    return OffsetCommitRecord(OffsetCommitKey(group, topic, partition), value)


def tombstone(group: str, topic: str, partition: int = 0) -> OffsetCommitRecord:
    return OffsetCommitRecord(OffsetCommitKey(group, topic, partition), None)


def group_tombstone(group: str) -> GroupMetadataRecord:
    return GroupMetadataRecord(GroupMetadataKey(group), None)


def generation(group: str, topic: str) -> GroupMetadataRecord:
    subscription = encode_subscription(Subscription(topics=(topic,)))
    member = MemberMetadata("m", None, "c", "/h", 300_000, 45_000, subscription, b"")
    record = new_empty_group_record(group, START_MS)
    assert record.value is not None
    value = record.value._replace(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=(member,)
    )
    return GroupMetadataRecord(record.key, value)


def test_offsets_as_old_as_the_retention_expired() -> None:
    log = Log().write(0, commit("g", "t", 0), commit("g", "t", 0, 1))
    log.write(RETENTION, tombstone("g", "t"), tombstone("g", "t", 1), group_tombstone("g"))
    assert log.causes() == ["expired", "expired"]


def test_one_offset_that_is_younger_tells_that_the_group_was_deleted() -> None:
    log = Log().write(0, commit("g", "t", 0), commit("g", "u", 1))
    log.write(RETENTION, tombstone("g", "t"), tombstone("g", "u"), group_tombstone("g"))
    assert log.causes() == ["group deleted", "group deleted"]


def test_an_empty_group_expires_by_the_time_at_which_it_became_empty() -> None:
    log = Log().write(0, commit("g", "t", -RETENTION), new_empty_group_record("g", START_MS))
    log.write(RETENTION - 1, tombstone("g", "t"), group_tombstone("g"))
    assert log.causes() == ["group deleted"]


def test_a_topic_that_several_groups_lose_was_deleted() -> None:
    log = Log().write(0, commit("g", "t", 0), commit("h", "t", 0), commit("h", "u", 0))
    log.write(5, tombstone("g", "t")).write(10_005, tombstone("h", "t"), tombstone("h", "u"))
    assert log.causes() == ["topic deleted", "topic deleted", "offsets deleted"]


def test_groups_that_lose_a_topic_later_than_10_s_are_not_together() -> None:
    log = Log().write(0, commit("g", "t", 0), commit("h", "t", 0))
    log.write(5, tombstone("g", "t")).write(10_006, tombstone("h", "t"))
    assert log.causes() == ["offsets deleted", "offsets deleted"]


def test_offsets_of_a_topic_with_subscribers_cannot_be_deleted_but_with_it() -> None:
    log = Log().write(0, generation("g", "t")).write(1, commit("g", "t", 0), commit("g", "u", 0))
    log.write(2, tombstone("g", "t"), tombstone("g", "u"))
    assert log.causes() == ["topic deleted", "offsets deleted"]


def test_a_group_of_an_archive_ends_by_what_was_deleted_with_it() -> None:
    """And not by what it had lost before, wherever the archive is cut."""
    log = Log().write(0, commit("g", "t", 0), new_empty_group_record("g", START_MS))
    log.write(RETENTION - 1, commit("g", "u", RETENTION - 1)).write(RETENTION, tombstone("g", "t"))
    log.write(RETENTION + DAY, generation("g", "u")).write(
        RETENTION + 2 * DAY, tombstone("g", "u"), group_tombstone("g")
    )
    log.write(RETENTION + 3 * DAY, commit("h", "u", 0))
    archive = [
        {name: row[name] for name in ("key", "value", "partition", "offset", "timestamp")}
        for row in log.records
    ]
    for parts in ([archive], [[row] for row in archive]):
        folded = Folded([batch_of(part) for part in parts], round_trips=True)
        ends = [row["ended_by"] for row in folded.rows("generations")]
        assert sorted(ends) == ["deleted", "next"]


def test_subscriptions_are_looked_up_once_for_all_partitions(monkeypatch) -> None:
    asked = []

    def subscribes(_: GroupFold, group: str, topic: str) -> bool:
        asked.append((group, topic))
        return False

    monkeypatch.setattr(GroupFold, "subscribes", subscribes)
    log = Log().write(0, *(commit("g", "t", 0, number) for number in range(50)))
    log.write(1, *(tombstone("g", "t", number) for number in range(50)))
    assert log.causes() == ["offsets deleted"] * 50
    assert asked == [("g", "t")]


def test_behind_a_hole_causes_are_not_known() -> None:
    log = Log(start=3).write(0, commit("g", "t", 0)).write(5, tombstone("h", "t"))
    assert log.causes() == [None]


def test_tombstones_are_open_until_10_s_have_passed() -> None:
    log = Log().write(0, commit("g", "t", 0)).write(5, tombstone("g", "t"))
    folded = Folded([batch_of(log.records)])
    assert [row["kind"] for row in folded.rows("commits", with_open=False)] == ["first"]
    (open_row,) = folded.state.open_rows()["commits"].to_pylist()
    assert (open_row["kind"], open_row["cause"], open_row["in_force"]) == ("tombstone", None, 1)
    assert log.causes(is_over=False) == [None]


@pytest.mark.parametrize(("retention", "cause"), [(5, "expired"), (6, "offsets deleted")])
def test_the_retention_is_an_option(retention: int, cause: str) -> None:
    log = Log().write(0, commit("g", "t", 0)).write(5, tombstone("g", "t"))
    log.write(20_000, commit("g", "t", 0))
    folded = Folded([batch_of(log.records)], options=GroupOptions(retention_ms=retention))
    assert [row["cause"] for row in folded.rows("commits") if row["cause"]] == [cause]
