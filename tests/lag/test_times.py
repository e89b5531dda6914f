"""Lag in time: three methods against the appends of a log."""

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.lag import (
    EndSample,
    Method,
    TimeLag,
    lag_by_index,
    lag_by_record,
    lag_by_samples,
    records_lag,
    time_lag,
)

UNKNOWN = TimeLag(None, Method.NONE, None)
ANY = st.integers(-(2**63), 2**63 - 1)
POINTS = st.lists(st.builds(EndSample, ANY, ANY))


@st.composite
def appends(draw: st.DrawFn) -> list[int]:
    """The time of the append of each record, from offset 0 on."""
    return list(accumulate(draw(st.lists(st.integers(0, 1_000), min_size=1, max_size=20))))


def end_at(times: Sequence[int], moment: int) -> int:
    """The end of the log at a moment: appends of that ms are in it."""
    return sum(time <= moment for time in times)


def first_offset_at(times: Sequence[int], moment: int) -> int:
    """ListOffsets: the first offset with that timestamp or a later one; else the end."""
    return sum(time < moment for time in times)


@settings(max_examples=examples(60))
@given(times=appends(), moments=st.sets(st.integers(0, 25_000)), data=st.data())
def test_an_append_lies_within_twice_the_confidence_of_its_samples(
    times: list[int], moments: set[int], data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, len(times) - 1))
    at = data.draw(st.integers(times[-1], times[-1] + 5_000))
    taken = sorted({moment for moment in moments if moment < at} | {at})
    found = lag_by_samples(
        offset, [EndSample(moment, end_at(times, moment)) for moment in taken], at
    )
    if all(end_at(times, moment) > offset for moment in taken):
        assert found == UNKNOWN
        return
    assert found.lag_ms is not None
    assert found.confidence_ms is not None
    assert abs(found.lag_ms - (at - times[offset])) <= 2 * found.confidence_ms
    assert found.method is Method.SAMPLED


@settings(max_examples=examples(60))
@given(times=appends(), moments=st.sets(st.integers(0, 25_000)), data=st.data())
def test_a_timestamp_lies_within_the_confidence_of_its_grid(
    times: list[int], moments: set[int], data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, len(times) - 1))
    at = data.draw(st.integers(times[-1], times[-1] + 5_000))
    grid = [
        EndSample(moment, first_offset_at(times, moment))
        for moment in sorted(moment for moment in moments if moment < at)
    ]
    found = lag_by_index(offset, [*grid, EndSample(at, len(times))], at)
    if all(point.end > offset for point in grid):
        assert found == UNKNOWN
        return
    assert found.lag_ms is not None
    assert found.confidence_ms is not None
    assert abs(found.lag_ms - (at - times[offset])) <= found.confidence_ms
    assert found.method is Method.INDEX


@settings(max_examples=examples(60))
@given(
    committed=ANY,
    start=ANY,
    end=ANY,
    at=ANY,
    timestamp=st.none() | ANY,
    grid=POINTS,
    samples=POINTS,
)
def test_no_time_is_negative_whatever_the_points_are(
    committed: int,
    start: int,
    end: int,
    at: int,
    timestamp: int | None,
    grid: list[EndSample],
    samples: list[EndSample],
) -> None:
    records = records_lag(committed, start, end)
    found = time_lag(
        records,
        max(committed, start),
        at,
        timestamp=timestamp,
        grid=sorted(grid),
        samples=sorted(samples),
    )
    assert (found.lag_ms is None) == (found.method is Method.NONE)
    assert (found.lag_ms is None) == (found.confidence_ms is None)
    assert found.lag_ms is None or found.lag_ms >= 0
    assert found.confidence_ms is None or found.confidence_ms >= 0
    if records.lag is None:
        assert found == UNKNOWN
    if records.lag == 0:
        assert found.lag_ms == 0


def test_the_best_method_that_has_an_answer_is_taken() -> None:
    records = records_lag(5, 0, 10)
    grid = [EndSample(0, 0), EndSample(100, 10)]
    samples = [EndSample(0, 0), EndSample(100, 10)]
    best = time_lag(records, 5, 100, timestamp=60, grid=grid, samples=samples)
    assert best == TimeLag(40, Method.RECORD, 0)
    second = time_lag(records, 5, 100, timestamp=-1, grid=grid, samples=samples)
    assert second == TimeLag(50, Method.INDEX, 50)
    assert time_lag(records, 5, 100, samples=samples) == TimeLag(50, Method.SAMPLED, 50)
    assert time_lag(records, 5, 100) == UNKNOWN


@pytest.mark.parametrize("timestamp", [None, -1])
def test_a_record_without_a_timestamp_has_no_age(timestamp: int | None) -> None:
    assert lag_by_record(timestamp, 1_000) == UNKNOWN


def test_a_timestamp_in_the_future_is_no_negative_lag() -> None:
    assert lag_by_record(2_000, 1_000) == TimeLag(0, Method.RECORD, 0)


def test_between_two_samples_the_end_is_taken_to_grow_evenly() -> None:
    samples = [EndSample(0, 0), EndSample(30_000, 100), EndSample(60_000, 300)]
    assert lag_by_samples(150, samples, 60_000) == TimeLag(22_500, Method.SAMPLED, 15_000)


def test_a_commit_older_than_all_samples_has_no_extrapolated_lag() -> None:
    assert lag_by_samples(5, [EndSample(0, 10), EndSample(30_000, 20)], 30_000) == UNKNOWN
    assert lag_by_index(5, [EndSample(0, 10), EndSample(30_000, 20)], 30_000) == UNKNOWN


def test_a_flat_end_at_the_commit_is_caught_up_however_old_the_commit_is() -> None:
    samples = [EndSample(moment, 10) for moment in (0, 30_000, 60_000)]
    assert lag_by_samples(10, samples, 60_000) == TimeLag(0, Method.SAMPLED, 0)


def test_a_flat_end_before_a_record_is_not_its_lag() -> None:
    samples = [EndSample(0, 10), EndSample(3_600_000, 10), EndSample(3_630_000, 20)]
    assert lag_by_samples(10, samples, 3_630_000).lag_ms == 30_000


def test_samples_after_the_moment_do_not_count() -> None:
    samples = [EndSample(0, 0), EndSample(100, 10), EndSample(200, 20)]
    assert lag_by_samples(10, samples, 100) == TimeLag(0, Method.SAMPLED, 0)


def test_ends_of_a_former_log_do_not_count() -> None:
    samples = [EndSample(0, 5), EndSample(100, 900), EndSample(200, 0), EndSample(300, 10)]
    assert lag_by_samples(5, samples, 300) == TimeLag(50, Method.SAMPLED, 50)


def test_a_grid_whose_offsets_descend_is_not_inverted() -> None:
    grid = [EndSample(0, 5), EndSample(100, 900), EndSample(200, 0), EndSample(300, 10)]
    assert lag_by_index(5, grid, 300) == UNKNOWN
