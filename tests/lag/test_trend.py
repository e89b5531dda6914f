"""Velocity, catch-up and loss of lags that grow, fall, stand, or come in steps."""

from collections.abc import Callable, Sequence
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.lag import Direction, LagPoint, Trend, lag_trend, records_lag

AT = 1_700_000_000_000
NOTHING = Trend()
OFFSETS = st.integers(0, 2**63 - 1)


def points(
    committed: Callable[[int], int],
    end: Callable[[int], int],
    start: Callable[[int], int] = lambda _: 0,
    *,
    seconds: int = 600,
    every: int = 30,
) -> list[LagPoint]:
    """Points up to `AT`; the functions take seconds, which end at `seconds`."""
    taken = []
    for second in range(0, seconds + 1, every):
        at_commit, at_start, at_end = committed(second), start(second), end(second)
        lag = records_lag(at_commit, at_start, at_end).lag
        taken.append(LagPoint(AT + (second - seconds) * 1000, at_commit, at_start, at_end, lag))
    return taken


@st.composite
def any_points(draw: st.DrawFn) -> list[LagPoint]:
    times = sorted(draw(st.lists(st.integers(AT - 7 * 3_600_000, AT + 1_000), max_size=30)))
    taken = []
    for time in times:
        committed, start, end = draw(st.none() | OFFSETS), draw(OFFSETS), draw(OFFSETS)
        taken.append(LagPoint(time, committed, start, end, records_lag(committed, start, end).lag))
    return taken


@settings(max_examples=examples(60))
@given(taken=any_points())
def test_no_prediction_is_negative_infinite_or_a_lag_that_grows(taken: list[LagPoint]) -> None:
    found = lag_trend(taken, AT)
    assert found.velocity is None or isfinite(found.velocity)
    assert (found.velocity is None) == (found.direction is None)
    for ahead in (found.catch_up_ms, found.loss_ms):
        assert ahead is None or 0 <= ahead <= 365 * 86_400_000
    if found.catch_up_ms:
        assert found.direction is Direction.FALLING
    if found.velocity is None:
        assert found == NOTHING


def test_a_stopped_group_falls_behind_at_the_rate_of_the_producers() -> None:
    found = lag_trend(points(lambda _: 100, lambda second: 100 + 50 * second), AT)
    assert found == Trend(50.0, Direction.GROWING, None, None)


def test_a_falling_lag_has_the_time_until_it_is_0() -> None:
    found = lag_trend(points(lambda s: 30 * s, lambda s: 20_000 + 10 * s), AT)
    assert found.direction is Direction.FALLING
    assert found.velocity == pytest.approx(-20)
    assert found.catch_up_ms == pytest.approx(8_000 / 20 * 1000)


def test_no_lag_is_caught_up_now() -> None:
    found = lag_trend(points(lambda s: 10 * s, lambda s: 10 * s), AT)
    assert found == Trend(0.0, Direction.STEADY, 0, None)


@pytest.mark.parametrize("step", [5, 60, 100])
def test_commits_in_steps_are_steady_if_the_steps_keep_up(step: int) -> None:
    taken = points(lambda s: s // step * step * 100, lambda s: s * 100, every=1)
    assert lag_trend(taken, AT).direction is Direction.STEADY


def test_one_reset_does_not_move_the_median() -> None:
    found = lag_trend(
        points(lambda s: 10 * s + (5_000 if s > 500 else 0), lambda s: 6_000 + 12 * s), AT
    )
    assert found.velocity == pytest.approx(2)


@pytest.mark.parametrize(
    ("per_second", "rate", "expected"),
    [
        (1, 10, Direction.STEADY),
        (2, 10, Direction.GROWING),
        (90, 10_000, Direction.STEADY),
        (110, 10_000, Direction.GROWING),
        (-90, 10_000, Direction.STEADY),
        (-110, 10_000, Direction.FALLING),
    ],
)
def test_velocities_up_to_1_record_or_1_percent_of_the_rate_are_steady(
    per_second: int, rate: int, expected: Direction
) -> None:
    taken = points(lambda s: (rate - per_second) * s, lambda s: 100_000 + rate * s)
    assert lag_trend(taken, AT).direction is expected


def test_points_that_span_less_than_30_s_have_no_trend() -> None:
    assert lag_trend(points(lambda _: 0, lambda s: s, seconds=29, every=1), AT) == NOTHING
    assert lag_trend(points(lambda _: 0, lambda s: s, seconds=30, every=1), AT) != NOTHING
    assert lag_trend([], AT) == NOTHING


def test_points_older_than_10_minutes_do_not_count() -> None:
    taken = points(lambda s: min(s, 3_000) * 10, lambda s: s * 10, seconds=3_600)
    assert lag_trend(taken, AT).velocity == pytest.approx(10)
    assert lag_trend(taken, AT + 11 * 60_000) == NOTHING


def test_points_without_a_commit_have_no_trend() -> None:
    taken: Sequence[LagPoint] = [
        LagPoint(AT + second * 1000, None, 0, second, None) for second in range(-600, 0, 30)
    ]
    assert lag_trend(taken, AT) == NOTHING


def test_retention_that_closes_in_foretells_the_loss() -> None:
    """Segments of 6,000 records, deleted each minute; the group stopped."""
    taken = points(
        lambda _: 1_000_000, lambda s: 2_000_000 + s * 100, lambda s: s // 60 * 6_000, seconds=3_600
    )
    found = lag_trend(taken, AT)
    assert found.loss_ms == pytest.approx((1_000_000 - 360_000) / 100 * 1000, rel=0.02)


def test_one_jump_of_the_log_start_foretells_nothing() -> None:
    taken = points(
        lambda _: 1_000_000, lambda s: 2_000_000 + s * 100, lambda s: 500_000 if s > 300 else 0
    )
    assert lag_trend(taken, AT).loss_ms is None


def test_a_group_that_is_faster_than_retention_loses_nothing() -> None:
    taken = points(
        lambda s: 1_000_000 + s * 200, lambda s: 2_000_000 + s * 200, lambda s: s // 60 * 6_000
    )
    assert lag_trend(taken, AT).loss_ms is None


def test_a_commit_below_the_log_start_is_lost_now() -> None:
    assert lag_trend(points(lambda _: 5, lambda s: 1_000 + s, lambda _: 10), AT).loss_ms == 0
