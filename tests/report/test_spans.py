"""Time axes and times in words."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.report.spans import (
    DAY,
    HOUR,
    MINUTE,
    Span,
    clock_range,
    duration,
    milliseconds,
    moment,
)

NOON = milliseconds(datetime(2026, 1, 31, 12, tzinfo=UTC))


def labels(span):
    return [tick.label for tick in span.ticks()]


def test_ticks_are_at_round_times_and_the_first_one_has_the_day():
    assert labels(Span(NOON + 30_000, NOON + HOUR)) == [
        "Jan 31 12:10", "12:20", "12:30", "12:40", "12:50", "13:00",
    ]  # fmt: skip


def test_a_new_day_is_named():
    assert "Feb 1 00:00" in labels(Span(NOON, NOON + DAY))


def test_days_of_a_month_have_the_year_once():
    assert labels(Span(NOON, NOON + 30 * DAY))[:2] == ["Feb 1, 2026", "Feb 6"]


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**41), st.integers(1, 2**41))
def test_an_axis_has_at_most_nine_ticks_in_order(since, length):
    ticks = Span(since, since + length).ticks()
    assert len(ticks) <= 9
    positions = [tick.position for tick in ticks]
    assert positions == sorted(positions)
    assert all(0 <= position <= 1 for position in positions)


def test_an_empty_span_is_refused():
    with pytest.raises(ValueError, match="is no span of time"):
        Span(5, 5)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (None, "-"), (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (1_500, "1.5 s"),
        (46_000, "46 s"), (60_000, "1 min"), (90_000, "90 s"), (150_000, "2 min 30 s"),
        (HOUR, "1 h"), (26 * HOUR, "26 h"), (DAY, "1 d"), (400 * DAY, "400 d"), (-1_500, "-1.5 s"),
        (90 * MINUTE, "90 min"),
    ],
)  # fmt: skip
def test_a_duration_has_one_or_two_units(length, text):
    assert duration(length) == text


def test_a_range_names_the_day_once():
    assert clock_range(NOON, NOON + HOUR) == "2026-01-31 12:00:00 to 13:00:00 UTC"
    assert clock_range(NOON, NOON + DAY) == "2026-01-31 12:00 to 2026-02-01 12:00 UTC"


def test_times_beyond_the_calendar_are_its_ends():
    assert moment(2**62).year == 9999
    assert moment(-(2**62)).year == 1
