"""Resets are told from what a group does every day."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.folded import whole
from history.recorded import load
from kohort.history.resets import Reset, ResetPartition, find_resets
from kohort.history.schema import COMMITS, TIME

START = datetime(2026, 1, 31, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Log:
    """Rows of `commits`, as the fold makes them of commits one after the other."""

    def __init__(self):
        self.rows = []
        self.offsets = {}
        self.now = START

    def commit(self, offsets, origin="member", *, group="g", topic="t", after=SECOND):
        """One request with offsets by partition."""
        self.now += after
        for partition, committed in offsets.items():
            key = group, topic, partition
            previous = self.offsets.get(key)
            self.offsets[key] = committed
            self.rows.append({
                "log_partition": 3, "log_offset": len(self.rows), "in_force": len(self.rows),
                "group": group, "topic": topic, "partition": partition, "committed": committed,
                "previous": previous, "origin": origin, "time": self.now,
                "in_force_time": self.now, "commit_time": self.now - SECOND / 100,
                "kind": kind(previous, committed),
                "advance": None if previous is None else committed - previous,
            })  # fmt: skip

    def work(self, origin="member", partitions=4, commits=20, step=5):
        """A group commits all its partitions again and again."""
        for _ in range(commits):
            self.commit(
                {
                    number: self.offsets.get(("g", "t", number), 0) + step
                    for number in range(partitions)
                },
                origin,
            )

    def resets(self):
        return find_resets(pa.Table.from_pylist(self.rows, COMMITS))


def kind(previous, committed):
    if previous is None:
        return "first"
    difference = committed - previous
    return "advance" if difference > 0 else "rewind" if difference else "repeat"


@pytest.mark.parametrize("origin", ["member", "outside", "transaction"])
def test_daily_work_is_no_reset(origin):
    log = Log()
    log.work(origin)
    assert log.resets() == []


def test_offsets_set_back_are_a_reset_with_all_it_changed():
    log = Log()
    log.work(partitions=3)
    log.commit({0: 0, 1: 100, 2: 7}, "outside")
    log.work(partitions=3)
    assert log.resets() == [
        Reset(
            group="g",
            topic="t",
            log_partition=3,
            time=START + 21 * SECOND,
            commit_time=START + 21 * SECOND - SECOND / 100,
            partitions=(
                ResetPartition(0, 60, 100, 0),
                ResetPartition(1, 61, 100, 100),
                ResetPartition(2, 62, 100, 7),
            ),
            known_partitions=3,
        )
    ]
    assert log.resets()[0].log_offset == 60


@pytest.mark.parametrize(("partitions", "count"), [(1, 0), (2, 1), (4, 1)])
def test_a_reset_has_half_of_the_partitions_of_its_topic(partitions, count):
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(partitions), 0), "outside")
    assert len(log.resets()) == count


def test_members_set_back_no_offsets_for_an_operator():
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(4), 0), "member")
    assert log.resets() == []


def test_any_advance_from_outside_is_a_reset_where_members_commit():
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(4), 105), "outside")
    assert len(log.resets()) == 1


def test_an_offset_that_is_committed_again_is_no_reset():
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(4), 100), "outside")
    assert log.resets() == []


def test_first_commits_are_no_reset():
    log = Log()
    log.commit({0: 5, 1: 6}, "outside")
    assert log.resets() == []


def test_a_tool_sets_back_what_a_simple_consumer_commits():
    log = Log()
    log.work("outside")
    log.commit(dict.fromkeys(range(4), 0), "outside")
    log.commit(dict.fromkeys(range(4), 5), "outside")
    assert [reset.partitions[0].committed for reset in log.resets()] == [0]


def test_a_jump_ahead_of_a_simple_consumer_is_a_reset_but_catching_up_is_not():
    log = Log()
    log.work("outside")
    log.commit(dict.fromkeys(range(4), 2000), "outside", after=500 * SECOND)
    assert log.resets() == []
    log = Log()
    log.work("outside")
    log.commit(dict.fromkeys(range(4), 2000), "outside")
    assert len(log.resets()) == 1


def test_a_usual_advance_beside_a_rewind_is_no_reset():
    log = Log()
    log.work("outside", partitions=2)
    log.commit({0: 3, 1: 105}, "outside")
    assert log.resets() == []


def test_groups_and_topics_have_their_own_resets():
    log = Log()
    for group in ("a", "b"):
        for topic in ("t", "u"):
            log.commit({0: 9, 1: 9}, group=group, topic=topic)
    log.commit({0: 0}, "outside", group="a", topic="u")
    log.commit({0: 0, 1: 0}, "outside", group="b", topic="t")
    assert [(reset.group, reset.topic) for reset in log.resets()] == [("a", "u"), ("b", "t")]


def test_rows_that_never_counted_and_an_empty_table_have_no_reset():
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(4), 0), "outside")
    for row in log.rows[-4:]:
        row |= {"in_force": None, "kind": None}
    assert log.resets() == []
    assert find_resets(COMMITS.empty_table()) == []


def test_times_outside_the_calendar_are_left_out():
    log = Log()
    log.work()
    log.commit(dict.fromkeys(range(4), 0), "outside")
    commits = pa.Table.from_pylist(log.rows, COMMITS)
    at = commits.schema.get_field_index("commit_time")
    late = pa.array([2**62] * len(log.rows)).cast(TIME)
    (reset,) = find_resets(commits.set_column(at, "commit_time", late))
    assert (reset.commit_time, len(reset.partitions)) == (None, 4)


@settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(random):
    log = Log()
    for _ in range(random.randrange(30)):
        numbers = random.sample(range(4), random.randrange(1, 5))
        log.commit(
            {number: random.randrange(50) for number in numbers},
            random.choice(["member", "outside", "transaction"]),
        )
    expected = log.resets()
    random.shuffle(log.rows)
    assert log.resets() == expected


def test_resets_of_a_recorded_log_are_those_that_its_tools_made():
    """Every rewind of a group without members is in one, and no member's commit is."""
    for name in ("classic", "consumer", "offsets"):
        commits = whole(load(name).name).commits
        resets = find_resets(pa.Table.from_pylist(commits, COMMITS))
        places = {
            (reset.log_partition, each.log_offset) for reset in resets for each in reset.partitions
        }
        by_place = {(row["log_partition"], row["log_offset"]): row for row in commits}
        assert {by_place[place]["origin"] for place in places} <= {"outside"}
