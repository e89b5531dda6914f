"""Rows of samples: ends that brokers respond, and those of the past by a grid of times."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.history.sample_rows import (
    FUTURE_MS,
    MAX_LOOKUPS,
    MAX_TIMES,
    NOT_FOUND,
    Ends,
    grid_rows,
    grid_times,
    sampled_rows,
)
from kohort.history.schema import SAMPLES
from kohort.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 7)
NOW_MS = 1_000_000


def grid(found, now, times=None):
    """Times in ms and ends of the rows of a grid of partition A."""
    times = times or [*range(0, 100 * (len(found) - 1), 100), NOW_MS + FUTURE_MS]
    offsets = [{} if offset is None else {A: offset} for offset in found]
    rows = grid_rows(times, offsets, {A: now}, {"a": "id"}).to_pylist()
    assert {row["method"] for row in rows} <= {"grid"}
    assert all(row["start"] is None and row["stable"] is None for row in rows)
    return [(int(row["time"].timestamp() * 1000), row["end"]) for row in rows]


def log_of(times, start):
    """ListOffsets by time of a log with these times of records, from an offset on."""

    def first_since(time):
        later = [offset for offset, at in enumerate(times, start) if at >= time]
        return min(later, default=NOT_FOUND)

    return first_since


def test_a_sample_has_a_row_for_each_partition():
    rows = sampled_rows(1500, {B: Ends(1, 9, 8), A: Ends(0, 0)}, {"b": "id"})
    assert rows.schema == SAMPLES
    time = datetime.fromtimestamp(1.5, UTC)
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("a", 0, time, 0, 0, None, None, "sampled"),
        ("b", 7, time, 1, 9, 8, "id", "sampled"),
    ]


def test_no_partition_is_a_batch_without_rows():
    assert sampled_rows(0, {}, {}).num_rows == 0
    assert grid_rows((), (), {A: Ends(0, 1)}, {}).num_rows == 0


def test_a_grid_has_the_ends_of_the_past():
    assert grid([3, 5, 5, 9, NOT_FOUND], Ends(0, 9)) == [(0, 3), (100, 5), (200, 5), (300, 9)]
    assert grid([NOT_FOUND, NOT_FOUND], Ends(0, 9)) == [(0, 9)]


def test_a_grid_does_not_go_past_the_log_start():
    assert grid([3, 3, 5, NOT_FOUND], Ends(3, 9)) == [(200, 5)]
    assert grid([NOT_FOUND, NOT_FOUND], Ends(9, 9)) == [], "all records are gone"
    assert grid([0, 2, NOT_FOUND], Ends(0, 9)) == [(0, 0), (100, 2)], "none is gone"


def test_a_grid_does_not_go_past_the_stable_offset():
    assert grid([3, 6, 8, NOT_FOUND], Ends(0, 9, 6)) == [(0, 3), (100, 6)]


def test_a_partition_with_records_of_the_future_has_no_grid():
    assert grid([3, 5, 8], Ends(0, 9)) == []
    assert grid([3, 5, 9], Ends(0, 9)) == [(0, 3), (100, 5)], "appended since the sample"


def test_a_partition_whose_offsets_descend_has_no_grid():
    assert grid([5, 3, 8, NOT_FOUND], Ends(0, 9)) == []
    assert grid([5, NOT_FOUND, 8, NOT_FOUND], Ends(0, 9)) == []
    assert grid([5, 10, NOT_FOUND], Ends(0, 9)) == []


def test_a_time_without_a_response_has_no_row():
    assert grid([3, None, 8, NOT_FOUND], Ends(0, 9)) == [(0, 3), (200, 8)]
    assert grid([3, 5, None], Ends(0, 9)) == []


@given(
    steps=st.lists(st.integers(0, 300), max_size=20),
    start=st.sampled_from([0, 5]),
    times=st.lists(st.integers(0, 5_000), min_size=1, unique=True).map(sorted),
)
@settings(max_examples=examples(60))
def test_a_grid_row_counts_the_records_before_its_time(steps, start, times):
    appended = [sum(steps[: at + 1]) for at in range(len(steps))]
    first_since = log_of(appended, start)
    end = start + len(appended)
    asked = [*times, NOW_MS + FUTURE_MS]
    for time, found in grid([first_since(at) for at in asked], Ends(start, end), asked):
        assert found == start + sum(at < time for at in appended)
        assert found > start or start == 0


@pytest.mark.parametrize("partitions", [1, 60, 500, 30_000, 200_000])
def test_a_grid_asks_a_bounded_number_of_times(partitions):
    for span in (1, 29_999, 45_000, 86_400_000, 10**10):
        times = grid_times(5, 5 + span, partitions)
        assert times == sorted(set(times))
        assert times[0] == 5
        assert times[-1] < 5 + span
        assert 1 <= len(times) <= MAX_TIMES
        assert len(times) * partitions <= max(MAX_LOOKUPS, partitions)
        assert all(later - time >= 29_999 for time, later in pairwise(times))


def test_a_grid_of_nothing_asks_nothing():
    assert grid_times(5, 5, 1) == grid_times(9, 5, 1) == grid_times(0, 9, 0) == []
