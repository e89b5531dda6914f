"""The commits of each partition as arrays, in the order in which they came into force."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.finding import Position
from kohort.findings.partition_rows import slices
from kohort.history.numbering import integers, names_in, order_of, places_of

Array: TypeAlias = Any
SECOND_US: Final = 1_000_000
KEPT_GAPS: Final = 10
"""Gaps between commits that tell what is usual."""
COLUMNS: Final = (
    "log_partition", "log_offset", "time", "txn", "in_force", "group", "topic", "partition",
    "topic_id", "committed", "commit_time", "in_force_time", "previous", "previous_time", "advance",
    "kind", "origin", "member_id", "producer_id", "certainty",
)  # fmt: skip
"""Columns of `commits` that the rules need."""

KINDS: Final = ("first", "advance", "repeat", "rewind", "tombstone")
"""Those that changed what is in force, or confirmed it."""
FIRST, ADVANCE, REPEAT, REWIND, TOMBSTONE = range(5)
ORIGINS: Final = ("member", "outside", "transaction")
MEMBER, OUTSIDE, TRANSACTION = range(3)


@dataclass(frozen=True, eq=False, kw_only=True)
class CommitSeries:
    """The commits of one partition. Times are in µs, and never go back: a running maximum."""

    topic: str
    partition: int
    times: Array
    committed: Array
    """0 of tombstones."""
    advances: Array
    """0 where there is none."""
    previous: Array
    """-1: none, or unknown."""
    kinds: Array
    origins: Array
    members: Array
    """Member ids of the owners; None: nobody's."""
    is_exact: Array
    """Whether no record is missing before it."""
    log_partitions: Array
    log_offsets: Array

    def __len__(self) -> int:
        return len(self.times)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def position(self, index: int) -> Position:
        return Position(int(self.log_partitions[index]), int(self.log_offsets[index]))

    def count_until(self, time_us: int) -> int:
        """Number of commits up to a time."""
        return int(np.searchsorted(self.times, time_us, "right"))

    def part(self, chosen: Array) -> "CommitSeries":
        """Some of its commits."""
        return CommitSeries(
            topic=self.topic,
            partition=self.partition,
            **{name: getattr(self, name)[chosen] for name in _ARRAYS},
        )

    def since(self, time_us: int) -> "CommitSeries":
        return self.part(slice(int(np.searchsorted(self.times, time_us)), None))

    @cached_property
    def rewinds(self) -> Array:
        """Indexes of the commits that went back, but those from outside and uncertain ones."""
        return np.flatnonzero((self.kinds == REWIND) & (self.origins != OUTSIDE) & self.is_exact)

    @cached_property
    def apart(self) -> Array:
        """Indexes of the last commit of each second: others are one with it."""
        seconds = self.times // SECOND_US
        return np.flatnonzero(np.append(seconds[1:] != seconds[:-1], True)[: len(seconds)])

    def usual_gap_us(self, count: int | None = None) -> int | None:
        """Median of the last gaps between commits, of the first `count` ones; None: no gap."""
        apart = self.apart
        if count is not None:
            apart = apart[: np.searchsorted(apart, count)]
        gaps = np.diff(self.times[apart[-KEPT_GAPS - 1 :]])
        return int(np.median(gaps)) if len(gaps) else None


_ARRAYS: Final = (
    "times", "committed", "advances", "previous", "kinds", "origins", "members", "is_exact",
    "log_partitions", "log_offsets",
)  # fmt: skip


def series_of(commits: pa.Table) -> Mapping[tuple[str, int], CommitSeries]:
    """The commits in force of each partition of a group, which are in order."""
    kinds = pc.index_in(commits["kind"], pa.array(KINDS))
    if kinds.null_count:
        commits, kinds = commits.filter(kinds.is_valid()), kinds.drop_null()
    names = names_in(commits["topic"])
    topics, partitions = places_of(commits["topic"], names), integers(commits["partition"])
    arrays = {**_arrays(commits), "kinds": kinds.to_numpy().astype(np.int8)}
    order = order_of(topics, partitions)
    if order is not None:
        topics, partitions = topics[order], partitions[order]
        arrays = {name: array[order] for name, array in arrays.items()}
    found = {}
    for topic, partition, rows in slices(topics, partitions, names):
        part = {name: array[rows] for name, array in arrays.items()}
        part["times"] = np.maximum.accumulate(part["times"])
        found[topic, partition] = CommitSeries(topic=topic, partition=partition, **part)
    return found


def _arrays(commits: pa.Table) -> dict[str, Array]:
    members = names_in(commits["member_id"])
    member_ids = np.array([*members.to_pylist(), None], object)
    origins = pc.index_in(commits["origin"], pa.array(ORIGINS)).fill_null(-1)
    return {
        "times": _numbers(commits["in_force_time"].cast(pa.int64())),
        "committed": _numbers(commits["committed"]),
        "advances": _numbers(commits["advance"]),
        "previous": _numbers(commits["previous"], -1),
        "origins": origins.to_numpy().astype(np.int8),
        "members": member_ids[places_of(commits["member_id"], members)],
        "is_exact": pc.equal(commits["certainty"], "exact").fill_null(False).to_numpy(),
        "log_partitions": _numbers(commits["log_partition"]),
        "log_offsets": _numbers(commits["log_offset"]),
    }


def _numbers(column: pa.ChunkedArray, missing: int = 0) -> Array:
    """64-bit numbers; `missing` in place of null."""
    return column.cast(pa.int64()).fill_null(missing).to_numpy()
