"""Lag of all partitions of groups, at the times of samples, from the tables of a history.

`lag_table` is `kohort.lag` for many moments: its figures are the same. A commit counts from the
time at which it came into force, by the largest record time of its partition so far, as clocks of
coordinators differ. The kernels of `columnar.lag_kernels` go through commits and samples of each
partition once.

What the tables cannot know: which records transactions and compaction left out. So lag is an upper
bound of the records to be read, as an end is.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.columnar import lag_kernels as lk
from kohort.history.numbering import (
    Numbers,
    distinct,
    integers,
    milliseconds,
    named,
    names_in,
    nullable,
    order_of,
    places_of,
    times_of,
)
from kohort.history.sample_rows import GRID, SAMPLED
from kohort.history.schema import LAG

ROWS_PER_BATCH: Final = 128 * 1024
CASES: Final = ("ok", "no commit", "retention passed", "stale end")
TRENDS: Final = ("growing", "falling", "steady")
COMMIT_COLUMNS: Final = (
    "group", "topic", "partition", "topic_id", "committed", "in_force", "in_force_time",
)  # fmt: skip
"""What is read of commits."""
SAMPLE_COLUMNS: Final = ("topic", "partition", "time", "start", "end", "topic_id", "method")
"""What is read of samples."""
_METHODS: Final = pa.array([SAMPLED, GRID])
_NUMBERS: Final = {
    "committed": lk.ROW_COMMITTED,
    "lag": lk.ROW_LAG,
    "lag_ms": lk.ROW_LAG_MS,
    "lost": lk.ROW_LOST,
    "confidence_ms": lk.ROW_CONFIDENCE,
    "catch_up_ms": lk.ROW_CATCH_UP,
    "loss_ms": lk.ROW_LOSS,
    "commit_gap_ms": lk.ROW_GAP,
    "grown": lk.ROW_GROWN,
    "grown_repeated": lk.ROW_GROWN_REPEATED,
    "rewound": lk.ROW_REWOUND,
}
"""Columns of LAG by lines of the kernel's rows."""


def lag_table(commits: pa.Table, samples: pa.Table) -> pa.Table:
    """The lag of each partition of each group, as rows of LAG by group, topic, partition, time.

    `commits`: rows with COMMIT_COLUMNS of COMMITS; those that never counted are left out.
    `samples`: rows with SAMPLE_COLUMNS of SAMPLES. Both in any order. Partitions without samples
    have no rows.
    """
    return pa.Table.from_batches(lag_batches(commits, samples), LAG)


def last_lags(commits: pa.Table, samples: pa.Table) -> pa.Table:
    """Of each partition the row of its last sample, if it was committed until then."""
    return pa.Table.from_batches(lag_batches(commits, samples, last_only=True), LAG)


def lag_batches(
    commits: pa.Table, samples: pa.Table, *, last_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """`lag_table` or `last_lags` in record batches of about ROWS_PER_BATCH rows."""
    work = _Work(commits, samples)
    first = 0
    while first < work.keys.shape[1]:
        first, count = work.compute(first, last_only=last_only)
        if count:
            yield work.batch(count)


class _Work:
    """The tables of the kernels, and the names that their numbers stand for."""

    def __init__(self, commits: pa.Table, samples: pa.Table) -> None:
        commits = in_force(commits)
        self._topics = names_in(commits["topic"], samples["topic"])
        self._groups = names_in(commits["group"])
        ids = names_in(commits["topic_id"], samples["topic_id"])
        sampled = _Sampled(samples, self._topics, ids)
        self._samples = sampled.table
        self._commits, self.keys, self._of_keys = _commit_table(
            commits, self._groups, self._topics, ids, sampled
        )
        capacity = max(ROWS_PER_BATCH, sampled.longest)
        self._rows = np.empty((lk.ROW_LINES, capacity), np.int64)
        self._velocities = np.empty(capacity, np.float64)
        self._points = np.empty((lk.POINT_LINES, max(sampled.longest, 1)), np.int64)
        self._slopes = np.empty(max(sampled.longest, lk.KEPT_COMMITS), np.float64)
        self._registers = np.zeros(lk.REGISTERS, np.int64)

    def compute(self, first: int, *, last_only: bool) -> tuple[int, int]:
        """Write rows of keys from `first` on; the next key, and how many rows there are."""
        following = lk.compute_lags(
            first, int(last_only), self.keys, self._commits, self._samples, self._points,
            self._slopes, self._registers, self._rows, self._velocities,
        )  # fmt: skip
        return following, int(self._registers[lk.OUT])

    def batch(self, count: int) -> pa.RecordBatch:
        """The rows that are written, with the columns of LAG."""
        rows = self._rows[:, :count]
        groups, topics, partitions = self._of_keys[:, rows[lk.ROW_KEY]]
        samples = self._samples[:, rows[lk.ROW_SAMPLE]]
        velocities = self._velocities[:count]
        columns = {
            "group": named(groups, self._groups),
            "topic": named(topics, self._topics),
            "partition": pa.array(partitions.astype(np.int32)),
            "time": times_of(samples[lk.SAMPLE_TIME]),
            "start": nullable(samples[lk.SAMPLE_START]),
            "end": nullable(samples[lk.SAMPLE_END]),
            "method": named(samples[lk.SAMPLE_IS_GRID], _METHODS),
            "velocity": pa.array(velocities, mask=np.isnan(velocities)),
            "trend": named(rows[lk.ROW_TREND], pa.array(TRENDS)),
            "case": named(rows[lk.ROW_CASE], pa.array(CASES)),
            "commit_time": times_of(rows[lk.ROW_COMMIT_TIME]),
            "repeats": nullable(rows[lk.ROW_REPEATS]).cast(pa.int32()),
            **{name: nullable(rows[line]) for name, line in _NUMBERS.items()},
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in LAG.names], schema=LAG)


def in_force(commits: pa.Table) -> pa.Table:
    """The rows that came into force, tombstones too."""
    counts = pc.is_valid(commits["in_force"])
    if "kind" in commits.schema.names:
        is_newer = pc.fill_null(pc.not_equal(commits["kind"], "superseded"), False)
        counts = pc.and_(counts, is_newer)
    return commits.filter(counts)


class _Sampled:
    """The kernel's table of samples: by partition, and then by time."""

    def __init__(self, samples: pa.Table, topics: pa.Array, ids: pa.Array) -> None:
        """`topics`: the names of all topics, of which their numbers are the places."""
        self._tps, tp = distinct(
            places_of(samples["topic"], topics), integers(samples["partition"])
        )
        times = milliseconds(samples["time"])
        order = _places(order_of(tp, times), len(tp))
        is_grid = pc.fill_null(pc.equal(samples["method"], GRID), False)
        table = np.empty((lk.SAMPLE_LINES, len(order)), np.int64)
        table[lk.SAMPLE_TIME] = times[order]
        table[lk.SAMPLE_START] = integers(samples["start"])[order]
        table[lk.SAMPLE_END] = integers(samples["end"])[order]
        table[lk.SAMPLE_ID] = places_of(samples["topic_id"], ids)[order]
        table[lk.SAMPLE_IS_GRID] = integers(is_grid.cast(pa.int8()))[order]
        self.table = table
        self.bounds = np.searchsorted(tp[order], np.arange(self._tps.shape[1] + 1))
        """Where each partition begins, and the end."""
        if len(order):
            lk.link_samples(table, self.bounds)

    @property
    def longest(self) -> int:
        """The most samples of a partition."""
        return int(np.diff(self.bounds).max(initial=0))

    def partitions(self, topics: Numbers, partitions: Numbers) -> Numbers:
        """The number of each partition, -1 without samples."""
        count = self._tps.shape[1]
        both = np.concatenate([self._tps, np.stack([topics, partitions])], axis=1)
        tps, of_both = distinct(*both)
        numbers = np.full(tps.shape[1], -1)
        numbers[of_both[:count]] = np.arange(count)
        found: Numbers = numbers[of_both[count:]]
        return found


def _commit_table(
    commits: pa.Table, groups: pa.Array, topics: pa.Array, ids: pa.Array, sampled: _Sampled
) -> tuple[Numbers, Numbers, Numbers]:
    """The kernel's tables of commits and keys, and each key's group, topic and partition."""
    topic, partition = places_of(commits["topic"], topics), integers(commits["partition"])
    tp = sampled.partitions(topic, partition)
    counted = np.flatnonzero(tp >= 0)
    group = places_of(commits["group"], groups)[counted]
    key_values, key = distinct(group, tp[counted])
    order = _order(key, integers(commits["in_force"])[counted])
    key, chosen = key[order], counted[order]
    starts = np.searchsorted(key, np.arange(key_values.shape[1] + 1))
    table = np.empty((lk.COMMIT_LINES, len(chosen)), np.int64)
    table[lk.COMMIT_AT] = _running_maximum(milliseconds(commits["in_force_time"])[chosen], key)
    table[lk.COMMIT_OFFSET] = integers(commits["committed"])[chosen]
    table[lk.COMMIT_ID] = places_of(commits["topic_id"], ids)[chosen]
    keys = np.empty((lk.KEY_LINES, key_values.shape[1]), np.int64)
    keys[lk.KEY_COMMITS], keys[lk.KEY_COMMITS_END] = starts[:-1], starts[1:]
    keys[lk.KEY_SAMPLES] = sampled.bounds[key_values[1]]
    keys[lk.KEY_SAMPLES_END] = sampled.bounds[key_values[1] + 1]
    firsts = chosen[starts[:-1]]
    return table, keys, np.stack([key_values[0], topic[firsts], partition[firsts]])


def _order(key: Numbers, position: Numbers) -> Numbers:
    """Places by key, and then by the position from which a commit counts."""
    order = _places(order_of(key), len(key))
    is_same = key[order][1:] == key[order][:-1]
    if (np.diff(position[order])[is_same] >= 0).all():
        return order
    return np.lexsort((position, key))


def _places(order: Numbers | None, count: int) -> Numbers:
    return np.arange(count) if order is None else order


def _running_maximum(times: Numbers, key: Numbers) -> Numbers:
    """The largest time so far of each key; keys ascend."""
    if not len(times):
        return times
    base = int(times.min())
    step = int(times.max()) - base + 1
    if step * (int(key[-1]) + 1) < 2**62:
        raised = (times - base) + key * step
        reached: Numbers = np.maximum.accumulate(raised) - key * step + base
        return reached
    ends = np.flatnonzero(np.diff(key)) + 1
    return np.concatenate([np.maximum.accumulate(part) for part in np.split(times, ends)])
