"""Points in time in the formats of Kafka's `--to-datetime` and `--by-duration`.

A date and time without a zone is UTC, as in Kafka's own tool, which surprises users. So
`Moment.has_zone` is False without a zone, and output names the zone.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from kohort.errors import ConfigError

_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNITS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, and whether the input had a zone."""

    at_ms: int
    has_zone: bool

    def describe(self, local: timezone | None = None) -> str:
        """The time in UTC and in local time, for a check before the execution."""
        moment = instant(self.at_ms)
        return (
            f"{iso(self.at_ms)} ({moment.astimezone(local).isoformat(timespec='milliseconds')} "
            "local time)"
        )


def parse_datetime(text: str) -> Moment:
    """ISO 8601 with or without a zone: `2026-01-31T09:30:00.000+01:00`. Raises ConfigError."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is not a date and time as in 2026-01-31T09:30:00.000+01:00 (or "
            "…Z; without a zone it is UTC)"
        ) from None
    has_zone = parsed.tzinfo is not None
    aware = parsed if has_zone else parsed.replace(tzinfo=UTC)
    return Moment((aware - _EPOCH) // timedelta(milliseconds=1), has_zone)


def parse_duration(text: str) -> int:
    """Milliseconds of `PnDTnHnMnS`, parsed as by java.time.Duration. Raises ConfigError."""
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "Pp" or text[-1] in "Tt":
        raise ConfigError(f"{text!r} is not a duration as in P1DT2H30M (PnDTnHnMnS)")
    total = sum(float((match[unit] or "0").replace(",", ".")) * ms for unit, ms in _UNITS.items())
    return int(-total if match["sign"] == "-" else total)


def instant(at_ms: int) -> datetime:
    """The date and time in UTC. Raises OverflowError outside the calendar."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def iso(at_ms: int) -> str:
    """The time in UTC, such as 2026-01-31T09:30:00.000Z."""
    return instant(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
