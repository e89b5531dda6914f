"""Lag in time: how long ago the oldest unread record of a group was appended.

The oldest unread record is the one at the group's *position*: the committed offset, or the log
start offset if retention passed the commit. Three methods find its time, the best first:

- *record*: its timestamp, by one Fetch. That is the time of the append with
  `message.timestamp.type=LogAppendTime`, else the time that the producer gave it.
- *index*: ListOffsets responds with the first offset at or after a time. For a grid of times, the
  append lies between the last time whose offset is not above the position, and the next one.
- *sampled*: when an end that was sampled passed the position, linear between two samples.

None of them goes beyond its points: a record older than all points has no lag in time. `confidence`
is half of the interval in which the record was appended; 0 for a timestamp.

All times are Unix times in milliseconds; `at` is the moment whose lag is asked for.
"""

from collections.abc import Reversible, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from kohort.lag.records import RecordsLag


class Method(StrEnum):
    """How a lag in time was found."""

    RECORD = "record"
    INDEX = "index"
    SAMPLED = "sampled"
    NONE = "none"
    """It was not: the lag is None."""


class EndSample(NamedTuple):
    """An offset at a time: the end of the log, or ListOffsets' first offset at or after `time`.

    If no record is that young, ListOffsets responds -1, and the end of the log stands for it.
    """

    time: int
    end: int


@dataclass(frozen=True, slots=True)
class TimeLag:
    """Lag of a group in one partition, in time."""

    lag_ms: int | None = None
    method: Method = Method.NONE
    confidence_ms: int | None = None
    """The append may have been this much earlier or later; None as `lag_ms`."""


UNKNOWN_TIME: Final = TimeLag()
NOTHING_UNREAD: Final = TimeLag(0, Method.RECORD, 0)


def time_lag(
    records: RecordsLag,
    position: int,
    at: int,
    *,
    timestamp: int | None = None,
    grid: Sequence[EndSample] = (),
    samples: Reversible[EndSample] = (),
) -> TimeLag:
    """The lag in time by the best method that has an answer.

    0 if there is nothing to read, whatever the points say; unknown without a lag in records.
    `timestamp` is that of the first record from `position` on. `grid` and `samples` are as in
    `lag_by_index` and `lag_by_samples`.
    """
    if records.lag is None:
        return UNKNOWN_TIME
    if not records.lag:
        return NOTHING_UNREAD
    for found in (
        lag_by_record(timestamp, at),
        lag_by_index(position, grid, at),
        lag_by_samples(position, samples, at),
    ):
        if found.lag_ms is not None:
            return found
    return UNKNOWN_TIME


def lag_by_record(timestamp: int | None, at: int) -> TimeLag:
    """The age of the oldest unread record; 0 if its timestamp is in the future.

    Unknown if there is no timestamp (None), or the record has none (-1, of message format 0).
    """
    if timestamp is None or timestamp < 0:
        return UNKNOWN_TIME
    return TimeLag(max(at - timestamp, 0), Method.RECORD, 0)


def lag_by_index(position: int, grid: Sequence[EndSample], at: int) -> TimeLag:
    """The lag by offsets that ListOffsets found for times: the middle of an interval.

    `grid` is in the order of its times, and ends with the end of the log at `at`. Unknown if its
    offsets descend (the log was truncated, or the topic recreated), or all are above the position.
    """
    points = [point for point in grid if point.time <= at]
    if any(before.end > after.end for before, after in pairwise(points)):
        return UNKNOWN_TIME
    crossing = _crossing(position, points, at)
    if crossing is None:
        return UNKNOWN_TIME
    before, after = crossing
    if after is None:
        return TimeLag(0, Method.INDEX, 0)
    return TimeLag(max(at - (before.time + after.time) // 2, 0), Method.INDEX, _half(before, after))


def lag_by_samples(position: int, samples: Reversible[EndSample], at: int) -> TimeLag:
    """The lag by sampled ends: since when the end is above the position, linear between samples.

    `samples` are in the order of their times, and end with the one at `at`. If that end is not
    above the position, the group has caught up: 0. Unknown if all ends are above it. After an end
    that fell (another log), the samples since then count.
    """
    crossing = _crossing(position, samples, at)
    if crossing is None:
        return UNKNOWN_TIME
    before, after = crossing
    if after is None:
        return TimeLag(0, Method.SAMPLED, 0)
    share = (position - before.end) / (after.end - before.end)
    passed = before.time + int((after.time - before.time) * share)
    return TimeLag(max(at - passed, 0), Method.SAMPLED, _half(before, after))


def _crossing(
    position: int, points: Reversible[EndSample], at: int
) -> tuple[EndSample, EndSample | None] | None:
    """The last point up to `at` that is not above the position, and the next one, if any."""
    after = None
    for point in reversed(points):
        if point.time > at:
            continue
        if point.end <= position:
            return point, after
        after = point
    return None


def _half(before: EndSample, after: EndSample) -> int:
    return (after.time - before.time + 1) // 2
