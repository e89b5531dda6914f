"""Records that are missing make certain only what they cannot have changed."""

import pytest

from history.offset_logs import LOG_PARTITION, Record, batch_of
from history.test_commit_fold import Folded
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.history.gaps import Gap
from kohort.history.state import State
from kohort.history_files.certainty import is_in_gap


def commit(offset: int, group: str, committed: int | None) -> Record:
    value = None if committed is None else OffsetCommitValue(committed, -1, "", 1_000, -1, None)
    key, data = encode(OffsetCommitRecord(OffsetCommitKey(group, "t", 0), value))
    return {
        "partition": LOG_PARTITION, "offset": offset, "timestamp": 1_000_000 * offset,
        "batchOffset": offset, "partitionLeaderEpoch": 0, "transactional": False,
        "key": key, "value": data,
    }  # fmt: skip


def unreadable(offset: int, group: str) -> Record:
    """A commit of an unknown version."""
    return commit(offset, group, 1) | {"value": b"\0\x63" + bytes(8)}


COMPLETE = [commit(0, "busy", 1), commit(1, "busy", 2), commit(2, "idle", 7)]
BEHIND = [commit(100, "busy", 50), commit(101, "busy", 51), commit(102, "idle", 8)]


def certainties(folded: Folded) -> dict[int, str]:
    rows = folded.rows("commits")
    return {row["log_offset"]: row["certainty"] for row in rows if row["in_force"] is not None}


def test_records_behind_a_later_hole_are_not_exact():
    folded = Folded([batch_of(COMPLETE), batch_of(BEHIND)], round_trips=True)
    assert folded.state.coverage.gaps == [Gap(100, 101, is_later=True)]
    # 101 follows 100 for sure, while 102 may follow a commit of the group that was removed.
    assert certainties(folded) == {
        0: "exact", 1: "exact", 2: "exact", 100: "unknown", 101: "exact", 102: "unknown",
    }  # fmt: skip


def test_groups_behind_a_later_hole_are_not_complete():
    folded = Folded([batch_of([*COMPLETE, BEHIND[0]])])
    assert folded.state.coverage.exact_since(2) == 0
    assert folded.state.coverage.exact_since(100) is None


def test_a_key_from_before_a_pause_does_not_make_the_log_complete():
    """The first build saw each key once; what the second one does not see was compacted."""
    folded = Folded([batch_of(COMPLETE[1:])])
    state = State.from_arrow(folded.state.to_arrow())
    assert [gap.is_later for gap in state.coverage.gaps] == [False]
    state.coverage.after_pause = True
    folded.state = state
    folded.add(batch_of([commit(100, "busy", 50), commit(101, "other", 1)]))
    assert folded.state.coverage.gaps == [
        Gap(1, 100, is_later=False),
        Gap(100, None, is_later=True),
    ]
    assert certainties(folded)[100] == "unknown"


@pytest.mark.parametrize(
    ("cut", "is_unknown"), [(99, False), (100, True), (101, True), (102, False)]
)
def test_the_hole_itself_may_be_seen_before_the_record_behind_it(cut, is_unknown):
    assert is_in_gap([Gap(100, 101, is_later=False)], cut) is is_unknown
