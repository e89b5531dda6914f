"""The lag of each partition of a group at the times of samples, and the samples, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.partition_rows import by_partition

Array: TypeAlias = Any
UNKNOWN: Final = -1
"""In place of null."""
MS_US: Final = 1_000
_MICROS: Final = ("time", "commit_time")
_NUMBERS: Final = (
    "committed", "start", "end", "lag", "lag_ms", "lost", "loss_ms", "commit_gap_ms", "repeats",
    "grown", "grown_repeated",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LagSeries:
    """The rows of LAG of one partition, by time. Times are in µs; UNKNOWN for null."""

    topic: str
    partition: int
    time: Array
    commit_time: Array
    committed: Array
    start: Array
    end: Array
    lag: Array
    lag_ms: Array
    lost: Array
    loss_ms: Array
    commit_gap_ms: Array
    repeats: Array
    grown: Array
    grown_repeated: Array
    is_grid: Array

    def __len__(self) -> int:
        return len(self.time)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def silence_us(self) -> Array:
        """Time since the last commit, at each row."""
        return self.time - self.commit_time


def lags_of(lag: pa.Table) -> Mapping[tuple[str, int], LagSeries]:
    """(topic, partition) → its rows. `lag`: rows of LAG of one group."""
    if not lag.num_rows:
        return {}
    rows, partitions = by_partition(lag)
    arrays = {name: _numbers(rows[name]) for name in (*_MICROS, *_NUMBERS)}
    arrays["is_grid"] = pc.equal(rows["method"], "grid").fill_null(False).to_numpy()
    found = {}
    for topic, partition, places in partitions:
        part = {name: array[places] for name, array in arrays.items()}
        found[topic, partition] = LagSeries(topic=topic, partition=partition, **part)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class EndSeries:
    """The sampled ends of one partition, by time in µs."""

    time: Array
    end: Array

    def since(self, time_us: int) -> "EndSeries":
        first = int(np.searchsorted(self.time, time_us))
        return EndSeries(self.time[first:], self.end[first:])


def ends_of(samples: pa.Table) -> Mapping[tuple[str, int], EndSeries]:
    """(topic, partition) → its samples. `samples`: rows of SAMPLES."""
    rows, partitions = by_partition(samples)
    times, ends = _numbers(rows["time"]), _numbers(rows["end"])
    return {
        (topic, partition): EndSeries(times[places], ends[places])
        for topic, partition, places in partitions
    }


def _numbers(column: pa.ChunkedArray) -> Array:
    return column.cast(pa.int64()).fill_null(UNKNOWN).to_numpy()


def runs(mask: Array, least: int) -> list[tuple[int, int]]:
    """(first, last) of each run of at least `least` true values."""
    edges = np.diff(np.concatenate(([0], mask.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [
        (start, end - 1)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        if end - start >= least
    ]
