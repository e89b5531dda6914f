"""`--to-datetime` and `--by-duration`: what is read as what."""

from datetime import timedelta, timezone

import pytest

from kohort.client.resets.times import Moment, iso, parse_datetime, parse_duration
from kohort.errors import ConfigError

NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "at_ms", "has_zone"),
    [
        ("2026-01-31T12:00:00.000Z", NOON, True),
        ("2026-01-31T13:00:00.000+01:00", NOON, True),
        ("2026-01-31T13:00:00+0100", NOON, True),
        ("2026-01-31T02:30:00-09:30", NOON, True),
        ("2026-01-31T12:00:00.000", NOON, False),  # UTC, as Kafka reads it, wherever we are
        ("2026-01-31T12:00", NOON, False),
        ("2026-01-31", NOON - 12 * 3_600_000, False),
        ("2026-01-31T12:00:00.123", NOON + 123, False),
        ("2026-01-31T12:00:00.123999Z", NOON + 123, True),
        ("1969-12-31T23:59:59.999Z", -1, True),
    ],
)
def test_a_date_and_time_is_parsed(text: str, at_ms: int, has_zone: bool) -> None:
    assert parse_datetime(text) == Moment(at_ms, has_zone)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "12:00", "1769860800000"])
def test_an_invalid_date_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a date and time as in 2026-01-31T09:30"):
        parse_datetime(text)


def test_a_moment_is_described_in_both_zones() -> None:
    told = Moment(NOON, has_zone=False).describe(timezone(timedelta(hours=1)))
    assert told == "2026-01-31T12:00:00.000Z (2026-01-31T13:00:00.000+01:00 local time)"
    assert iso(NOON) == "2026-01-31T12:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1D", 86_400_000),
        ("PT0S", 0),
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.005S", 93_784_005),
        ("pt0,25s", 250),
        ("PT-1H", -3_600_000),
        ("-PT1H", -3_600_000),
        ("-PT-1H30M", 1_800_000),
        ("PT90M", 5_400_000),
    ],
)
def test_a_duration_is_parsed_as_by_java(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P1Y", "PT1.5H", "P-", " P1D"]
)
def test_an_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration as in P1DT2H30M"):
        parse_duration(text)
