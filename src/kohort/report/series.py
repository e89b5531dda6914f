"""Numbers over time in buckets of one length: records and commits from `minutes`, and lag.

`minutes` has a row for each partition and minute with commits. A chart has at most some hundred
points, so minutes are summed. Of a short time the commits themselves are counted, by the second.
Lag is the largest of a bucket; a partition without a row keeps its lag, as `lag` has rows where
something changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from kohort.findings.partition_rows import by_partition
from kohort.report.owners import TopicPartition
from kohort.report.spans import MINUTE, SECOND, Span

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FINEST: Final = SECOND


@dataclass(frozen=True, slots=True)
class Activity:
    """Commits of a group in buckets."""

    width: int
    """Length of a bucket in ms; the last one may reach beyond the span."""
    records: Floats
    """Sum of the advances of committed offsets."""
    commits: Floats

    def rate(self) -> Floats:
        """Records committed per second."""
        rates: Floats = self.records / (self.width / SECOND)
        return rates


@dataclass(frozen=True, slots=True)
class LagSeries:
    """The lag of a group in buckets; nan where no partition's is known."""

    width: int
    total: Floats
    largest: Floats
    largest_ms: Floats
    """The time by which the partition is behind that is behind most, in ms."""
    last: Mapping[TopicPartition, int]
    """Last known lag of each partition."""
    unknown: int
    """Partitions whose last lag is not known."""

    @property
    def has_times(self) -> bool:
        return bool(np.isfinite(self.largest_ms).any())


def activity(minutes: pa.Table, commits: pa.Table, span: Span, most: int) -> Activity:
    """Buckets of `minutes`; of `commits`, if those of the minutes would be few."""
    width = max(-(-span.length // most), _FINEST)
    if width < MINUTE and commits.num_rows:
        return _of_commits(commits, span, width)
    width = -(-max(width, MINUTE) // MINUTE) * MINUTE
    begin = span.since // MINUTE * MINUTE  # the minute of the first commit began before it
    return _summed(
        _times(minutes["minute"]), _numbers(minutes["sum_advance"]), _numbers(minutes["commits"]),
        Span(begin, span.until + 1), width,
    )  # fmt: skip


def _of_commits(commits: pa.Table, span: Span, width: int) -> Activity:
    kept = commits.filter(pc.not_equal(commits["kind"], "tombstone"))
    ones = np.ones(kept.num_rows)
    advances = _numbers(kept["advance"])
    advances = np.where(advances > 0, advances, 0.0)  # a rewind is no work
    return _summed(_times(kept["in_force_time"]), advances, ones, span, width)


def _summed(times: Integers, records: Floats, commits: Floats, span: Span, width: int) -> Activity:
    count = -(-span.length // width)
    chosen = (times >= span.since) & (times <= span.until)
    buckets = np.minimum((times[chosen] - span.since) // width, count - 1)
    return Activity(
        width,
        np.maximum(np.bincount(buckets, records[chosen], count), 0.0),
        np.bincount(buckets, commits[chosen], count).astype(np.float64),
    )


def _times(column: Any) -> Integers:
    """Times in ms; null: a time before all."""
    times: Integers = pc.fill_null(column.cast(pa.int64()), -(2**62)).to_numpy() // 1_000
    return times


def _numbers(column: Any) -> Floats:
    numbers: Floats = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    return numbers


def lag_series(lag: pa.Table, span: Span, most: int) -> LagSeries | None:
    """The lag of all partitions; None if the history has none in the span."""
    width = max(-(-span.length // most), _FINEST)
    count = -(-span.length // width)
    times = _times(lag["time"])
    chosen = lag.filter(pa.array((times >= span.since) & (times <= span.until)))
    if not chosen.num_rows:
        return None
    chosen, partitions = by_partition(chosen)
    buckets = np.minimum((_times(chosen["time"]) - span.since) // width, count - 1)
    records, behind = _nullable(chosen["lag"]), _nullable(chosen["lag_ms"])
    total, largest, largest_ms = (np.full(count, np.nan) for _ in range(3))
    last: dict[TopicPartition, int] = {}
    unknown = 0
    for topic, number, rows in partitions:
        of_partition = _held(buckets[rows], records[rows], count)
        total = _plus(total, of_partition)
        largest = np.fmax(largest, of_partition)
        largest_ms = np.fmax(largest_ms, _held(buckets[rows], behind[rows], count))
        if np.isfinite(records[rows.stop - 1]):
            last[TopicPartition(topic, number)] = int(records[rows.stop - 1])
        else:
            unknown += 1
    return LagSeries(width, total, largest, largest_ms, last, unknown)


def _held(buckets: Integers, values: Floats, count: int) -> Floats:
    """The largest value of each bucket; of one without rows the last value before it."""
    found = np.full(count, np.nan)
    np.fmax.at(found, buckets, values)
    closing = np.full(count, np.nan)
    closing[buckets] = values
    has_rows = np.zeros(count, dtype=bool)
    has_rows[buckets] = True
    before = np.maximum.accumulate(np.where(has_rows, np.arange(count), -1))
    held = np.where(before >= 0, closing[np.maximum(before, 0)], np.nan)
    filled: Floats = np.where(has_rows, found, held)
    return filled


def _plus(total: Floats, values: Floats) -> Floats:
    """The sum of what is known."""
    both: Floats = np.where(np.isnan(total), values, total + np.nan_to_num(values))
    return both


def _nullable(column: Any) -> Floats:
    numbers: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
