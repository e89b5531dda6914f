"""Lag at the times of samples: each row is what `kohort.lag` says of that moment."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.history.lag import lag_table, last_lags
from kohort.history.schema import COMMITS, LAG, SAMPLES
from kohort.lag import EndSample, LagPoint, lag_by_samples, lag_trend, records_lag

START_MS = 1_767_225_600_000
FIGURES = (
    "committed", "start", "end", "lag", "lag_ms", "lost", "confidence_ms", "velocity", "trend",
    "catch_up_ms", "loss_ms", "case",
)  # fmt: skip


def time(ms):
    return datetime.fromtimestamp((START_MS + ms) / 1000, UTC)


def commit(ms, committed, *, offset=None, group="g", topic="t", partition=0, **others):
    return {
        "group": group, "topic": topic, "partition": partition, "committed": committed,
        "in_force": ms if offset is None else offset, "in_force_time": time(ms),
        "kind": "advance", **others,
    }  # fmt: skip


def sample(ms, end, *, start=0, topic="t", partition=0, method="sampled", **others):
    return {
        "topic": topic, "partition": partition, "time": time(ms), "start": start, "end": end,
        "method": method, **others,
    }  # fmt: skip


def lags(commits, samples, compute=lag_table):
    table = compute(pa.Table.from_pylist(commits, COMMITS), pa.Table.from_pylist(samples, SAMPLES))
    assert table.schema == LAG
    return table.to_pylist()


def figures(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


class TestCases:
    def test_a_group_that_reads_all_has_no_lag(self):
        rows = lags([commit(0, 5)], [sample(0, 5), sample(30_000, 5)])
        assert figures(rows, "lag", "lag_ms", "lost", "case") == [(0, 0, 0, "ok")]

    def test_a_partition_has_no_row_before_its_first_commit(self):
        rows = lags([commit(10, 5)], [sample(0, 5), sample(9, 5), sample(10, 7)])
        assert figures(rows, "time", "committed", "lag") == [(time(10), 5, 2)]

    def test_a_tombstone_is_a_row_without_lag(self):
        commits = [commit(0, 5), commit(10, None, kind="tombstone")]
        rows = lags(commits, [sample(0, 7), sample(10, 7), sample(20, 9), sample(30, 9)])
        assert figures(rows, "committed", "lag", "lag_ms", "case") == [
            (5, 2, None, "ok"),
            (None, None, None, "no commit"),
        ]

    def test_a_negative_commit_is_none(self):
        (row,) = lags([commit(0, -1)], [sample(0, 7), sample(10, 9)])
        assert (row["committed"], row["lag"], row["case"]) == (None, None, "no commit")

    def test_records_that_retention_removed_are_lost_and_no_lag(self):
        (row,) = lags([commit(0, 5)], [sample(0, 20, start=12)])
        assert (row["lag"], row["lost"], row["case"]) == (8, 7, "retention passed")

    def test_a_commit_beyond_the_end_has_no_lag(self):
        (row,) = lags([commit(0, 5)], [sample(0, 3)])
        assert (row["lag"], row["lost"], row["case"]) == (0, 0, "stale end")

    def test_a_commit_of_a_topic_that_was_recreated_is_none(self):
        commits = [commit(0, 5, topic_id="old")]
        samples = [sample(0, 7, topic_id="old"), sample(10, 9, topic_id="new")]
        rows = lags(commits, samples)
        assert figures(rows, "lag", "case") == [(2, "ok"), (None, "no commit")]

    def test_a_topic_without_known_ids_is_the_same(self):
        rows = lags([commit(0, 5)], [sample(0, 7, topic_id="old")])
        assert figures(rows, "lag") == [(2,)]

    def test_a_partition_without_samples_has_no_row(self):
        assert lags([commit(0, 5)], []) == []
        assert lags([], [sample(0, 7)]) == []
        assert lags([commit(0, 5, partition=1), commit(0, 5, topic="u")], [sample(0, 7)]) == []

    def test_commits_that_never_counted_are_left_out(self):
        commits = [
            commit(0, 5),
            commit(1, 6, in_force=None, kind=None),
            commit(2, 3, kind="superseded"),
        ]
        assert figures(lags(commits, [sample(5, 7)]), "committed") == [(5,)]

    def test_the_log_orders_commits_whatever_their_times(self):
        commits = [commit(20, 5, offset=1), commit(10, 6, offset=2)]
        rows = lags(commits, [sample(15, 9), sample(20, 9)])
        assert figures(rows, "time", "committed") == [(time(20), 6)]

    def test_a_grid_does_not_know_the_log_start(self):
        rows = lags([commit(0, 5)], [sample(0, 9, start=None, method="grid")])
        assert figures(rows, "start", "lag", "lost", "method") == [(None, 4, 0, "grid")]

    def test_a_known_log_start_stands_in_a_grid_behind_it(self):
        samples = [sample(0, 9, start=6), sample(10, 9, start=None, method="grid")]
        assert figures(lags([commit(10, 5)], samples), "start", "lost") == [(6, 1)]

    def test_a_grid_yields_to_what_was_sampled(self):
        samples = [
            sample(0, 9), sample(10, 8, start=None, method="grid"),
            sample(20, 14, start=None, method="grid"), sample(30, 12),
        ]  # fmt: skip
        rows = lags([commit(0, 0)], samples)
        assert figures(rows, "end", "method") == [
            (9, "sampled"), (9, "grid"), (12, "grid"), (12, "sampled"),
        ]  # fmt: skip


class TestRows:
    def test_a_time_without_lag_and_change_has_no_row(self):
        samples = [sample(ms, 5) for ms in range(0, 1_500_000, 30_000)]
        rows = lags([commit(0, 5)], samples)
        assert figures(rows, "time") == [(time(ms),) for ms in (0, 600_000, 1_200_000)]

    def test_a_lag_has_a_row_at_each_sample(self):
        samples = [sample(ms, 6) for ms in range(0, 90_000, 30_000)]
        assert figures(lags([commit(0, 5)], samples), "lag") == [(1,)] * 3

    def test_a_change_without_lag_has_a_row(self):
        commits = [commit(0, 5), commit(30_000, 8)]
        samples = [sample(0, 5), sample(15_000, 5), sample(30_000, 8), sample(45_000, 8)]
        assert figures(lags(commits, samples), "end", "lag") == [(5, 0), (8, 0)]

    def test_rows_are_by_group_topic_partition_and_time(self):
        keys = [(group, topic, number) for group in "ba" for topic in "yx" for number in (1, 0)]
        commits = [
            commit(0, 1, group=group, topic=topic, partition=number)
            for group, topic, number in keys
        ]
        samples = [
            sample(ms, 5, topic=topic, partition=number)
            for ms in (30, 0) for topic in "yxz" for number in (1, 0, 2)
        ]  # fmt: skip
        rows = lags(commits, samples)
        assert figures(rows, "group", "topic", "partition", "time") == [
            (*key, time(ms)) for key in sorted(keys) for ms in (0, 30)
        ]

    def test_the_last_lags_are_the_rows_of_the_last_samples(self):
        commits = [commit(0, 5), commit(0, 5, partition=1), commit(99, 5, partition=2)]
        samples = [sample(ms, 9, partition=number) for ms in (0, 40_000) for number in range(3)]
        every, last = lags(commits, samples), lags(commits, samples, last_lags)
        assert [row for row in every if row["time"] == time(40_000)] == last
        assert figures(last, "partition") == [(0,), (1,), (2,)]

    def test_a_row_is_there_at_the_last_sample_without_a_change_too(self):
        rows = lags([commit(0, 5)], [sample(0, 5), sample(30_000, 5)], last_lags)
        assert figures(rows, "time", "lag") == [(time(30_000), 0)]


class TestCommits:
    def test_the_usual_gap_is_the_median_of_the_last_commits(self):
        commits = [commit(ms, ms) for ms in (0, 5_000, 10_000, 15_000, 60_000)]
        (row,) = lags(commits, [sample(60_000, 100_000)])
        assert row["commit_gap_ms"] == 5_000
        assert row["commit_time"] == time(60_000)

    def test_commits_within_a_second_count_as_one(self):
        commits = [commit(ms, ms) for ms in (0, 100, 999, 1_000)]
        (row,) = lags(commits, [sample(2_000, 100_000)])
        assert row["commit_gap_ms"] == 1_000
        (row,) = lags(commits[:3], [sample(2_000, 100_000)])
        assert row["commit_gap_ms"] is None

    def test_repeats_count_the_last_commits_of_one_offset(self):
        commits = [commit(number * 1_000, 5 + (number < 3)) for number in range(8)]
        samples = [sample(0, 10), sample(3_000, 20), sample(7_000, 50), sample(9_000, 60)]
        row = lags(commits, samples)[-1]
        assert (row["repeats"], row["grown_repeated"], row["grown"]) == (4, 40, 10)
        many = [commit(number * 1_000, 5) for number in range(30)]
        assert lags(many, [sample(40_000, 60)])[-1]["repeats"] == 9

    def test_a_rewind_counts_until_it_is_passed_again(self):
        offsets = [10, 20, 5, 15, 21]
        commits = [commit(number * 1_000, offset) for number, offset in enumerate(offsets)]
        rows = lags(commits, [sample(number * 1_000, 100) for number in range(5)])
        assert figures(rows, "rewound") == [(0,), (0,), (15,), (5,), (0,)]


def expected(commits, samples):
    """The rows of one key without those that are left out: by `kohort.lag`, one after the other.

    `samples` are in order, and their ends ascend.
    """
    points = []
    for at, now in enumerate(samples):
        seen = [each for each in commits if each["in_force_time"] <= now["time"]]
        if not seen:
            continue
        committed = seen[-1]["committed"]
        found = records_lag(committed, now["start"], now["end"])
        ms = milliseconds(now)
        row = dict.fromkeys(FIGURES) | {
            "time": now["time"], "start": now["start"], "end": now["end"], "lag": found.lag,
            "lost": found.lost, "case": str(found.case),
        }  # fmt: skip
        if found.lag is not None:
            ends = [EndSample(milliseconds(each), each["end"]) for each in samples[: at + 1]]
            in_time = lag_by_samples(max(committed, now["start"]), ends, ms)
            points.append(LagPoint(ms, committed, now["start"], now["end"], found.lag))
            trend = lag_trend(points, ms)
            row |= {
                "committed": committed,
                "lag_ms": in_time.lag_ms if found.lag else 0,
                "confidence_ms": in_time.confidence_ms if found.lag else 0,
                "velocity": trend.velocity,
                "trend": None if trend.direction is None else str(trend.direction),
                "catch_up_ms": trend.catch_up_ms,
                "loss_ms": trend.loss_ms,
            }
        yield row


def milliseconds(row):
    return round(row["time"].timestamp() * 1000)


offsets = st.integers(0, 400) | st.integers(0, 2**34)
steps = st.sampled_from([0, 1, 400, 15_000, 30_000, 30_000, 200_000, 4_000_000])


@st.composite
def histories(draw):
    """Commits and samples of one partition of one group."""
    ms, commits = 0, []
    for step, offset in draw(st.lists(st.tuples(steps, offsets | st.none()), max_size=25)):
        ms += step
        commits.append(commit(ms, offset, offset=len(commits)))
    ms = end = start = 0
    samples = []
    for step, grown, removed in draw(
        st.lists(st.tuples(steps, offsets, st.integers(0, 60)), min_size=1, max_size=40)
    ):
        ms, end = ms + step, end + grown
        start = min(start + removed, end)
        samples.append(sample(ms, end, start=start))
    return commits, samples


@given(history=histories(), data=st.data())
@settings(max_examples=examples(200))
def test_each_row_is_what_kohort_lag_says_of_its_moment(history, data):
    commits, samples = history
    whole = list(expected(commits, samples))
    shuffled = data.draw(st.permutations(commits)), data.draw(st.permutations(samples))
    if len({row["time"] for row in samples}) < len(samples):
        shuffled = commits, samples  # those of the same time are in the order of the table
    rows = lags(*shuffled)
    for row in rows:
        assert {name: row[name] for name in ("time", *FIGURES)} in whole
        figures_of = [row[name] for name in LAG.names if name != "velocity"]
        assert all(each >= 0 for each in figures_of if isinstance(each, int))
        assert row["velocity"] == row["velocity"], "not NaN"
    written = {row["time"] for row in rows}
    assert {row["time"] for row in whole if row["lag"]} <= written
    if whole:
        assert whole[0]["time"] in written
        (last,) = lags(*shuffled, last_lags)
        assert {name: last[name] for name in ("time", *FIGURES)} == whole[-1]


@given(
    committed=st.integers(-(2**63), 2**63 - 1),
    start=st.integers(0, 2**63 - 1),
    end=st.integers(0, 2**63 - 1),
    step=st.integers(0, 10**14),
)
@settings(max_examples=examples(60))
def test_no_number_overflows(committed, start, end, step):
    samples = [sample(0, min(start, end)), sample(step, end, start=start)]
    for row in lags([commit(0, committed)], samples):
        numbers = [row[name] for name in ("lag", "lag_ms", "lost", "confidence_ms", "loss_ms")]
        assert all(each is None or each >= 0 for each in numbers)


@pytest.mark.parametrize("count", [1, 3_000])
def test_many_rows_come_in_several_batches(count, monkeypatch):
    from kohort.history import lag

    monkeypatch.setattr(lag, "ROWS_PER_BATCH", 1_000)
    commits = [commit(0, 1, group=f"g{number:04}") for number in range(count)]
    rows = lags(commits, [sample(ms, 5) for ms in (0, 10)])
    assert figures(rows, "group", "lag") == [
        (f"g{number:04}", 4) for number in range(count) for _ in range(2)
    ]
