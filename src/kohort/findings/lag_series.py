"""The lag of each partition of a group at the times of samples, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

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
    rows = lag.sort_by([("topic", "ascending"), ("partition", "ascending"), ("time", "ascending")])
    arrays = {name: _numbers(rows[name]) for name in (*_MICROS, *_NUMBERS)}
    arrays["is_grid"] = pc.equal(rows["method"], "grid").fill_null(False).to_numpy()
    topics = np.array(rows["topic"].to_pylist(), object)
    partitions = _numbers(rows["partition"])
    changes = np.flatnonzero((topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])) + 1
    bounds = [0, *changes.tolist(), len(topics)]
    found = {}
    for start, end in pairwise(bounds):
        topic, partition = str(topics[start]), int(partitions[start])
        part = {name: array[start:end] for name, array in arrays.items()}
        found[topic, partition] = LagSeries(topic=topic, partition=partition, **part)
    return found


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
