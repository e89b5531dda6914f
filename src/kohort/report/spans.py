"""A stretch of time, the position of a moment in it, and the ticks of its axis.

Times are milliseconds since the epoch. Labels are in UTC, as all times of the history.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(HOUR * count for count in (1, 2, 3, 6, 12)),
    *(DAY * count for count in (1, 2, 5, 10, 30, 60, 120, 365)),
)
"""Distances of ticks."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_EARLIEST: Final = -((_EPOCH - datetime.min.replace(tzinfo=UTC)) // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of a time axis, at a share of its width."""

    position: float
    label: str
    is_minor: bool
    """Left out on narrow screens."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time from `since` to `until`, which is later."""

    since: int
    until: int

    def __post_init__(self) -> None:
        """Raises ValueError for an empty span."""
        if self.since >= self.until:
            raise ValueError(f"{self.since} to {self.until} is no span of time")

    @property
    def length(self) -> int:
        return self.until - self.since

    def position(self, time: int) -> float:
        """The share of the span that is over at a time: 0 before it, 1 after it."""
        return min(max((time - self.since) / self.length, 0.0), 1.0)

    def ticks(self, most: int = 9) -> list[Tick]:
        """At most so many ticks at round times; every other one is minor."""
        step = next((step for step in _STEPS if self.length <= step * (most - 1)), None)
        if step is None:
            step = -(-self.length // ((most - 1) * DAY * 365)) * DAY * 365
        first = -(-self.since // step)
        times = [number * step for number in range(first, self.until // step + 1)]
        return [
            Tick(self.position(time), _label(time, step, index == 0), bool(index % 2))
            for index, time in enumerate(times)
        ]


def milliseconds(time: datetime) -> int:
    """The milliseconds since the epoch of a time with a zone."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def moment(time: int) -> datetime:
    """The time in UTC; the earliest or latest one that Python knows in place of one beyond."""
    return _EPOCH + timedelta(milliseconds=min(max(time, _EARLIEST), _LATEST))


def clock(time: int, length: int = 0) -> str:
    """A time as people read it, with its zone, as exact as a span of this length needs."""
    return f"{plain_clock(time, length)} UTC"


def clock_range(since: int, until: int) -> str:
    """Two times, the date only once if it is the same."""
    length = until - since
    begin, end = plain_clock(since, length), plain_clock(until, length)
    same = begin[:10] == end[:10] and len(end) > 10
    return f"{begin} to {end[11:] if same else end} UTC"


def duration(length: int | None) -> str:
    """A length in ms in one or two units; "-" for None."""
    if length is None:
        return "-"
    if length < 0:
        return f"-{duration(-length)}"
    if length < SECOND:
        return f"{length} ms"
    if length < 10 * SECOND:
        return f"{length / SECOND:.1f} s".replace(".0 ", " ")
    for unit, name, larger, smaller, smaller_name in _UNITS:
        if unit == DAY or (length < unit * 100 and length % larger):
            count, rest = divmod(length, unit)
            rest //= smaller
            return f"{count:,} {name}" + (f" {rest} {smaller_name}" if rest and count < 10 else "")
    raise AssertionError("days have no limit")


_UNITS: Final = (
    (SECOND, "s", MINUTE, SECOND, "s"),
    (MINUTE, "min", HOUR, SECOND, "s"),
    (HOUR, "h", DAY, MINUTE, "min"),
    (DAY, "d", DAY, HOUR, "h"),
)
"""A unit, the next larger one, and the next smaller one, in which the rest is."""


def plain_clock(time: int, length: int = 0) -> str:
    """The same without the zone, for a column whose title has it."""
    text = moment(time).isoformat(" ", "milliseconds")[:-6]
    if length <= 10 * SECOND:
        return text
    return text[:19] if length <= 6 * HOUR else text[:16]


def _label(time: int, step: int, is_first: bool) -> str:
    at = moment(time)
    if step >= 365 * DAY:
        return f"{at.year}"
    day = f"{at:%b} {at.day}"
    if step >= DAY:
        return f"{day}, {at.year}" if is_first else day
    if step < SECOND:
        text = f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
    else:
        text = f"{at:%H:%M:%S}" if step < MINUTE else f"{at:%H:%M}"
    return f"{day} {text}" if is_first or time % DAY == 0 else text
