"""Lag of some groups from the samples in a history, in bounded memory.

A long history has too many samples for all of them to be kept. Those of the last hours are taken
as they are, and of earlier ones one each ten minutes or each hour.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.lag import COMMIT_COLUMNS, lag_table
from kohort.history.numbering import distinct, integers, milliseconds, names_in, places_of
from kohort.history.schema import COMMITS, LAG, SAMPLES, TIME
from kohort.history_files.file_system import Files
from kohort.history_files.samples import last_sample_ms, sample_parts
from kohort.history_files.snapshot import Snapshot

BEFORE: Final = timedelta(days=1)
"""How long before a period samples are read, for the time of a lag and its trend."""
_HOUR_MS: Final = 3_600_000
TIERS_MS: Final = ((6 * _HOUR_MS, 600_000), (48 * _HOUR_MS, _HOUR_MS))
"""Age of a sample → from there on, one of so much time is taken."""


def samples_of(
    files: Files,
    snapshot: Snapshot,
    topics: Iterable[str],
    since: datetime | None,
    until: datetime | None,
) -> pa.Table:
    """SAMPLES of some topics up to `until`, from a day before `since` on. Raises KohortError."""
    last_ms = last_sample_ms(snapshot) or 0
    end_ms = last_ms if until is None else min(last_ms, int(until.timestamp() * 1000))
    first = None if since is None else since - BEFORE
    parts = sample_parts(files, snapshot, until, topics=topics, since=first)
    rows = pa.concat_tables([SAMPLES.empty_table(), *(thinned(part, end_ms) for part in parts)])
    return thinned(rows, end_ms)


def lags_of(
    commits: pa.Table, earlier: pa.Table, samples: pa.Table, since: datetime | None
) -> pa.Table:
    """LAG of the groups of `commits` at the samples from `since` on.

    `commits`: rows of COMMITS from `since` on. `earlier`: what was in force then, with the columns
    of COMMITTED.
    """
    if not samples.num_rows:
        return LAG.empty_table()
    together = pa.concat_tables([_with_columns(earlier), _with_columns(commits)])
    return later(lag_table(together, samples), since)


def later(rows: pa.Table, since: datetime | None) -> pa.Table:
    """The rows from a time on."""
    return rows if since is None else rows.filter(pc.field("time") >= pa.scalar(since, TIME))


class SamplesByTopic:
    """Samples, of which those of some topics are found without a search."""

    def __init__(self, samples: pa.Table) -> None:
        order = [(name, "ascending") for name in ("topic", "partition", "time")]
        self._rows = samples.sort_by(order)
        topics = names_in(samples["topic"])
        ends = np.cumsum(np.bincount(places_of(samples["topic"], topics), minlength=len(topics)))
        self._ends = dict(zip(topics.to_pylist(), ends.tolist(), strict=True))
        self._starts = dict(zip(topics.to_pylist(), [0, *ends.tolist()], strict=False))

    @property
    def is_empty(self) -> bool:
        return not self._rows.num_rows

    def of(self, topics: Iterable[str]) -> pa.Table:
        """The samples of these topics."""
        parts = [
            self._rows.slice(self._starts[topic], self._ends[topic] - self._starts[topic])
            for topic in sorted(topics)
            if topic in self._ends
        ]
        return pa.concat_tables([SAMPLES.empty_table(), *parts])


def _with_columns(commits: pa.Table) -> pa.Table:
    """The columns that a lag needs; a commit without a position is before all that have one."""
    names = commits.schema.names
    columns = {
        name: commits[name] if name in names else pa.nulls(len(commits), COMMITS.field(name).type)
        for name in (*COMMIT_COLUMNS, "kind")
    }
    if "in_force" not in names:
        columns["in_force"] = pa.array(np.full(len(commits), -1))
        columns["kind"] = pa.array(["first"] * len(commits), pa.string())
    return pa.table(columns).cast(pa.schema([COMMITS.field(name) for name in columns]))


def thinned(samples: pa.Table, end_ms: int) -> pa.Table:
    """All samples of the hours before a time, and of older ones the last one in each period."""
    if not len(samples):
        return samples
    times = milliseconds(samples["time"])
    age = end_ms - times
    bucket = times.copy()
    for older_than, period in TIERS_MS:
        bucket = np.where(age >= older_than, times // period * period, bucket)
    topics = names_in(samples["topic"])
    _, key = distinct(
        places_of(samples["topic"], topics), integers(samples["partition"]), bucket - bucket.min()
    )
    order = np.lexsort((times, key))
    is_last: Any = np.append(np.diff(key[order]) > 0, True)
    is_young = age[order] < TIERS_MS[0][0]
    return samples.take(pa.array(order[is_last | is_young]))
