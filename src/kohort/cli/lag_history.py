"""Trend of the lags that a command saw: of each partition, and of a group as a whole.

Keeps ten minutes of points per partition, five seconds apart, and the last one.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.client.admin import PartitionLag
from kohort.lag import NO_TREND, Direction, LagPoint, Trend, lag_trend
from kohort.lag.trend import WINDOW_MS
from kohort.types import TopicPartition

SPACING_MS: Final = 5_000
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


class LagHistory:
    """The last lags of one group."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, deque[LagPoint]] = {}
        self._total = deque[LagPoint]()

    def add(self, lags: Mapping[TopicPartition, PartitionLag], now_ms: int) -> None:
        """Note the lags that were seen now; partitions that are gone are forgotten."""
        points = dict(_points(lags.values(), now_ms))
        self._partitions = {tp: self._partitions.get(tp, deque()) for tp in points}
        for tp, point in points.items():
            _append(self._partitions[tp], point)
        if points:
            _append(self._total, _sum(points.values(), now_ms))

    def trend(self, partition: TopicPartition) -> Trend:
        """The trend of a partition; unknown in the first 30 s."""
        points = self._partitions.get(partition, deque())
        return lag_trend(list(points), points[-1].time) if points else NO_TREND

    def total(self) -> Trend:
        """The trend of the sum of all lags; without a loss, which is one of a partition."""
        if not self._total:
            return NO_TREND
        found = lag_trend(list(self._total), self._total[-1].time)
        return Trend(found.velocity, found.direction, found.catch_up_ms)


def _points(lags: Iterable[PartitionLag], now_ms: int) -> Iterable[tuple[TopicPartition, LagPoint]]:
    for lag in lags:
        if lag.lag is not None and lag.committed and lag.start is not None and lag.end is not None:
            yield lag.partition, LagPoint(now_ms, lag.committed.offset, lag.start, lag.end, lag.lag)


def _sum(points: Iterable[LagPoint], now_ms: int) -> LagPoint:
    committed = start = end = lag = 0
    for point in points:
        committed += point.committed or 0
        start += point.start
        end += point.end
        lag += point.lag or 0
    return LagPoint(now_ms, committed, start, end, lag)


def _append(points: deque[LagPoint], point: LagPoint) -> None:
    if len(points) > 1 and points[-1].time - points[-2].time < SPACING_MS:
        points[-1] = point
    else:
        points.append(point)
    while points[0].time < point.time - WINDOW_MS:
        points.popleft()


def trend_text(trend: Trend) -> str:
    """`+12/s`, or `-30/s, 0 in 2 min`; "" if it is not known."""
    if trend.velocity is None or trend.direction is None:
        return ""
    if trend.direction is Direction.STEADY:
        return "steady"
    text = f"{trend.velocity:+,.0f}/s"
    if trend.catch_up_ms:
        text += f", 0 in {duration_text(trend.catch_up_ms)}"
    if trend.loss_ms:
        text += f", loss in {duration_text(trend.loss_ms)}"
    return text


def duration_text(milliseconds: int) -> str:
    """A duration in its largest unit, rounded down: `45 s`, `3 min`, `2 h`, `5 d`."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds // size} {unit}"
    return "0 s"
