"""What commits tell the fold of groups, and owners tell the rows of commits."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.group_logs import Commits
from history.offset_logs import LOG_PARTITION, START_MS, batch_of
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.history import state as state_module
from kohort.history.commit_times import SlotTimes
from kohort.history.fold import State, fold
from kohort.history.interface import LogPosition, Owner
from kohort.types import TopicPartition

GROUPS, PARTITIONS = ("g", "h"), (TopicPartition("t", 0), TopicPartition("t", 1))
ALICE, BOB = Owner("alice", "a", "/1", 1), Owner("bob", "b", "/2", 1)


class History:
    """Folds one commit after the other; owners are assigned in between."""

    def __init__(self) -> None:
        self.state = State.new(LOG_PARTITION)
        self.rows: list[dict[str, Any]] = []

    @property
    def times(self) -> SlotTimes:
        state = self.state
        return SlotTimes(state.partitions, state.silence, state.tombstones)

    def commit(self, at: int, group: str = "g", tp: TopicPartition = PARTITIONS[0]) -> None:
        """`at`: ms behind the start."""
        self.fold(at, group, tp, OffsetCommitValue(at, -1, "", START_MS + at))

    def delete(self, at: int, group: str = "g", tp: TopicPartition = PARTITIONS[0]) -> None:
        self.fold(at, group, tp, None)

    def fold(
        self, at: int, group: str, tp: TopicPartition, value: OffsetCommitValue | None
    ) -> None:
        key, data = encode(OffsetCommitRecord(OffsetCommitKey(group, *tp), value))
        position = {"partition": LOG_PARTITION, "offset": self.state.next_offset}
        position |= {"batchOffset": self.state.next_offset, "timestamp": (START_MS + at) * 1000}
        record = {"key": key, "value": data, "transactional": False, **position}
        rows, self.state = fold(self.state, batch_of([record]))
        self.rows += rows["commits"].to_pylist()

    def reload(self) -> None:
        self.state = State.from_arrow(self.state.to_arrow())


steps = st.tuples(
    st.sampled_from(["commit", "commit", "commit", "assign", "reload"]),
    st.sampled_from(GROUPS),
    st.sampled_from(PARTITIONS),
    st.sampled_from([None, ALICE, BOB, ALICE._replace(generation=2)]),
    st.sampled_from([0, 10, 1_000, 7_000]),
)


@settings(max_examples=examples(40))
@given(st.lists(steps, max_size=30))
def test_times_are_those_of_all_commits_one_after_the_other(steps: list[Any]) -> None:
    history, expected, now = History(), Commits(), 0
    for what, group, tp, owner, wait in steps:
        now += wait
        if what == "commit":
            position = LogPosition(history.state.next_offset, START_MS + now)
            history.commit(now, group, tp)
            expected.commit(group, tp, position)
        elif what == "assign":
            history.times.assign(group, tp, owner)
            expected.assign(group, tp, owner)
        else:
            history.reload()
        for each in (history.times,):
            for of in ((group, tp) for group in GROUPS for tp in PARTITIONS):
                assert each.last_commit(*of) == expected.last_commit(*of)
                gaps = [later - one for one, later in pairwise(expected.times[of])]
                assert (each.usual_gap(*of) is None) == (not gaps)
                if history.state.partitions.slot(*of) >= 0:
                    before = expected.last_before_assigned(*of)
                    assert each.last_before_assigned(*of) in (before, None)
                if expected.owners.get(of):
                    assert each.last_before_assigned(*of) == expected.last_before_assigned(*of)
                    assert each.first_since_assigned(*of) == expected.first_since_assigned(*of)
            assert each.first_commit(group) == expected.first.get(group)


def test_the_usual_gap_is_the_median_of_the_last_ten() -> None:
    history, now = History(), 0
    history.commit(now)
    assert history.times.usual_gap("g", PARTITIONS[0]) is None
    for gap in (99_000, 99_000, 1, 1, 1, 1, 5, 6, 7, 7, 7, 7):
        now += gap
        history.commit(now)
    assert history.times.usual_gap("g", PARTITIONS[0]) == 5.5
    history.delete(now + 1)
    assert history.times.usual_gap("g", PARTITIONS[0]) is None
    assert history.times.last_commit("g", PARTITIONS[0]) is None


def test_the_log_was_silent_between_two_records_a_second_apart() -> None:
    history = History()
    for at in (0, 900, 1_900, 5_000, 5_000):
        history.commit(at, "h")
    silent = history.times.was_silent
    assert silent(START_MS + 1_900, START_MS + 5_000)
    assert silent(START_MS + 2_000, START_MS + 4_000)
    assert silent(START_MS + 900, START_MS + 1_900)
    assert not silent(START_MS, START_MS + 900)
    assert not silent(START_MS + 900, START_MS + 2_000)
    assert not silent(START_MS + 4_000, START_MS + 4_100)
    history.reload()
    assert history.times.was_silent(START_MS + 1_900, START_MS + 5_000)


def test_a_commit_is_its_owners_from_the_assignment_on() -> None:
    history = History()
    history.commit(0)
    history.times.assign("g", PARTITIONS[0], ALICE)
    history.commit(1)
    history.commit(2, tp=PARTITIONS[1])
    history.times.assign("g", PARTITIONS[0], ALICE._replace(generation=2))
    history.reload()
    history.commit(3)
    history.times.assign("g", PARTITIONS[0], None)
    history.commit(4)
    columns = ("origin", "member_id", "client_id", "client_host", "generation")
    assert [tuple(row[name] for name in columns) for row in history.rows] == [
        ("outside", None, None, None, None),
        ("member", "alice", "a", "/1", 1),
        ("outside", None, None, None, None),
        ("member", "alice", "a", "/1", 2),
        ("outside", None, None, None, None),
    ]


def test_names_that_nothing_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MANY_NAMES", 10)
    history = History()
    for at in range(100):
        history.commit(at, f"group-{at}", TopicPartition(f"topic-{at}", 0))
        history.times.assign(f"group-{at}", TopicPartition(f"topic-{at}", 0), ALICE)
        history.times.assign(f"group-{at}", TopicPartition(f"topic-{at}", 0), None)
        history.delete(at, f"group-{at}", TopicPartition(f"topic-{at}", 0))
    state = history.state
    assert len(state.partitions.topics) < 60
    assert pa.compute.count_distinct(state.open_rows()["commits"].column("group")).as_py() == 100
