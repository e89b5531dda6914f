"""Committed offsets of a group at a time, from a history, and what of them is certain.

Log positions order everything, not clocks: a commit counts at a time if it was in force before the
first record of its log partition with a later time. So a group that was deleted since, and another
one that has its name, are told apart by themselves.

`certainty` has the rules of what is certain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.gaps import Gap
from kohort.history.rows import rows_of
from kohort.history_files.certainty import NO_CUT, UNKNOWN
from kohort.history_files.offsets_at import OffsetAt, offsets_at
from kohort.history_files.reading import GroupReader, Row

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""
_KEY: Final = ("topic", "partition")
_COLUMNS: Final = (
    *_KEY, "log_offset", "in_force", "in_force_time", "committed", "leader_epoch", "metadata",
    "topic_id", "life", "previous", "previous_time", "error",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A row of `commits` in force."""

    log_offset: int
    time: datetime | None
    """Record time from which on it counted; None: outside the calendar."""
    offset: int | None
    """The committed offset; None: the commit was removed."""
    leader_epoch: int
    """-1: none."""
    metadata: str
    topic_id: str | None
    """None: the record does not have it, as those of Kafka before 4.1."""
    life: int | None
    previous: int | None
    previous_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedAt:
    """What a group had committed in one partition at a time."""

    topic: str
    partition: int
    is_certain: bool
    commit: Commit | None
    """The commit in force; None: there was none, or it is not known."""
    after: Commit | None
    """The first commit or removal after the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsets:
    """What a group had committed at a time, in every partition that its history names."""

    log_partition: int
    cut: int
    """The first log offset that did not count then; NO_CUT: the history has none."""
    gap: Gap | None
    """The part of the log that has the time, and of which records were removed; None: none."""
    partitions: Mapping[Key, CommittedAt]

    @property
    def reaches_past(self) -> bool:
        """Whether the history has a record of the log partition that is later than the time."""
        return self.cut != NO_CUT


def committed_offsets(reader: GroupReader) -> CommittedOffsets:
    """At the reader's moment, or now; the history must have records of the group."""
    assert reader.log_partition is not None
    commits = reader.table("commits", (), _COLUMNS)
    before = {
        (offset.topic, offset.partition): offset
        for offset in offsets_at(commits, reader.cut, reader.limits)
    }
    commits = commits.filter(pc.is_valid(commits["in_force"]))
    named = map(_key, commits.group_by(list(_KEY)).aggregate([]).to_pylist())
    later = commits.filter(pc.greater_equal(commits["in_force"], reader.cut))
    after = {_key(row): row for row in _first(later)}
    return CommittedOffsets(
        log_partition=reader.log_partition,
        cut=reader.cut,
        gap=reader.gap,
        partitions={
            key: _committed_at(key, before.get(key), after.get(key))
            for key in sorted({*named, *before})
        },
    )


def _committed_at(key: Key, before: OffsetAt | None, after: Row | None) -> CommittedAt:
    in_force = None if before is None else before.commit
    return CommittedAt(
        topic=key[0],
        partition=key[1],
        is_certain=before is None or before.certainty != UNKNOWN,
        commit=None if in_force is None else _commit(in_force),
        after=None if after is None else _commit(after),
    )


def _first(commits: pa.Table) -> Iterator[Row]:
    """The row of each partition that was in force first; of several the last one in the log."""
    grouped = commits.group_by(list(_KEY)).aggregate([("in_force", "min")])
    firsts = {_key(row): row["in_force_min"] for row in grouped.to_pylist()}
    candidates = commits.filter(pc.is_in(commits["in_force"], grouped["in_force_min"]))
    rows = [row for row in rows_of(candidates) if row["in_force"] == firsts[_key(row)]]
    yield from {_key(row): row for row in _by_offset(rows)}.values()


def _by_offset(rows: Iterable[Row]) -> Sequence[Row]:
    return sorted(rows, key=lambda row: int(row["log_offset"]))


def _key(row: Row) -> Key:
    return row["topic"], row["partition"]


def _commit(row: Row) -> Commit:
    return Commit(
        log_offset=row["log_offset"],
        time=row["in_force_time"],
        offset=row["committed"],
        leader_epoch=-1 if row["leader_epoch"] is None else row["leader_epoch"],
        metadata=row["metadata"] or "",
        topic_id=row["topic_id"],
        life=row["life"],
        previous=row["previous"],
        previous_time=row["previous_time"],
    )
