"""Trend of a lag: how fast it grows, when the group catches up, and when retention reaches it.

*Velocity* is the median slope of the lag over ten minutes. Commits come in steps, so the lag is a
sawtooth, and the median of its steps would be that of its rising side. So slopes are those between
points half the window apart (Theil's incomplete method): steps shorter than that cancel out. A
single outlier, such as a reset, does not move a median either.

*Dead band*: velocities up to one record per second, or 1 % of the rate at which records are
produced, are `steady`.

*Loss*: retention deletes whole segments, so the log start offset moves in jumps, some of them hours
apart. Its rate is the mean over up to six hours, and known after two jumps. One jump alone would
foretell a loss within minutes, or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

WINDOW_MS: Final = 10 * 60_000
"""Points of this time before a moment give its velocity."""
MIN_SPAN_MS: Final = 30_000
"""Points that span less have no trend: consumers commit every few seconds."""
LOSS_WINDOW_MS: Final = 6 * 3_600_000
"""Points of this time before a moment give the rate of the log start offset."""
MIN_JUMPS: Final = 2
"""Jumps of the log start offset after which its rate is known."""
DEAD_BAND: Final = 1.0
"""Records per second."""
DEAD_BAND_OF_RATE: Final = 0.01
MAX_AHEAD_MS: Final = 365 * 86_400_000
"""Longer predictions are None: a rate does not stay the same for a year."""


class Direction(StrEnum):
    """Where a lag goes."""

    GROWING = "growing"
    FALLING = "falling"
    STEADY = "steady"


class LagPoint(NamedTuple):
    """A lag at a time (Unix time in ms) with the offsets that it comes from."""

    time: int
    committed: int | None
    start: int
    end: int
    lag: int | None
    """In records, as `records_lag` gives it."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of a lag at one moment; None: not known, or not to be expected."""

    velocity: float | None = None
    """Records per second; positive: the lag grows."""
    direction: Direction | None = None
    catch_up_ms: int | None = None
    """Time until the lag is 0, if it falls."""
    loss_ms: int | None = None
    """Time until retention deletes unread records; 0: it did."""


NO_TREND: Final = Trend()


def lag_trend(points: Sequence[LagPoint], at: int) -> Trend:
    """The trend at `at` of points in the order of their times; those after `at` are ignored.

    Points without a lag (no commit) are left out. All is unknown if the points of the last ten
    minutes span less than 30 s.
    """
    known = [point for point in points if point.lag is not None and point.time <= at]
    recent = [point for point in known if point.time >= at - WINDOW_MS]
    velocity = median_slope([(point.time, point.lag or 0) for point in recent])
    if velocity is None:
        return NO_TREND
    rate = median_slope([(point.time, point.end) for point in recent]) or 0.0
    direction = direction_of(velocity, rate)
    closing = (start_rate([point for point in known if point.time >= at - LOSS_WINDOW_MS])) - (
        median_slope([(point.time, point.committed or 0) for point in recent]) or 0.0
    )
    last = recent[-1]
    return Trend(
        velocity,
        direction,
        catch_up_ms(last.lag or 0, velocity, direction),
        loss_ms(last.committed or 0, last.start, closing),
    )


def median_slope(points: Sequence[tuple[int, int]]) -> float | None:
    """The median slope, per second, between points (ms, value) that are half of them apart.

    None if the points span less than `MIN_SPAN_MS`.
    """
    if len(points) < 2 or points[-1][0] - points[0][0] < MIN_SPAN_MS:
        return None
    apart = (len(points) + 1) // 2
    slopes = [
        (later - earlier) * 1000 / (until - since)
        for (since, earlier), (until, later) in zip(points, points[apart:], strict=False)
        if until > since
    ]
    return median(slopes) if slopes else None


def start_rate(points: Sequence[LagPoint]) -> float:
    """The mean rate of the log start offset, per second; 0 before its second jump."""
    jumps = sum(before.start < after.start for before, after in pairwise(points))
    if jumps < MIN_JUMPS:
        return 0.0
    span = points[-1].time - points[0].time
    return max(points[-1].start - points[0].start, 0) * 1000 / span if span >= MIN_SPAN_MS else 0.0


def direction_of(velocity: float, rate: float) -> Direction:
    """Where the lag goes; steady within the dead band of a topic with `rate` records/s."""
    band = max(DEAD_BAND, DEAD_BAND_OF_RATE * rate)
    if velocity > band:
        return Direction.GROWING
    return Direction.FALLING if velocity < -band else Direction.STEADY


def catch_up_ms(lag: int, velocity: float, direction: Direction) -> int | None:
    """The time until a falling lag is 0; None for one that does not fall, or for over a year."""
    if not lag:
        return 0
    if direction is not Direction.FALLING:
        return None
    return _ahead(lag, -velocity)


def loss_ms(committed: int, start: int, closing: float) -> int | None:
    """The time until the log start offset passes the commit, `closing` in by so many records/s.

    0 if it did already; None if it does not close in, or needs over a year.
    """
    if committed < start:
        return 0
    return _ahead(committed - start, closing) if closing > 0 else None


def _ahead(records: int, per_second: float) -> int | None:
    if records * 1000 > MAX_AHEAD_MS * per_second:
        return None
    return int(records * 1000 / per_second)
