"""Folds group records beside a plain record of all commits."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from kohort.coordinator.records import OffsetCommitRecord, decode
from kohort.history import schema
from kohort.history.group_fold import GroupFold, GroupOptions
from kohort.history.interface import LogPosition, Owner
from kohort.types import TopicPartition

Row: TypeAlias = dict[str, Any]


class Logged(NamedTuple):
    """A record of the log; the key of a committed offset begins with type 0 or 1."""

    key: bytes
    value: bytes | None
    at: LogPosition


class Commits:
    """All commits so far, and the owners of partitions."""

    def __init__(self, *, is_silent: bool = False) -> None:
        self.times: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)
        self.owners: dict[tuple[str, TopicPartition], Owner | None] = {}
        self.assigned: dict[tuple[str, TopicPartition], int] = {}
        """Number of commits before the partition got its owner."""
        self.first: dict[str, int] = {}
        self.record_times: list[int] = []
        self.is_silent = is_silent

    def commit(self, group: str, tp: TopicPartition, at: LogPosition) -> None:
        self.times[group, tp].append(at.timestamp)
        self.first.setdefault(group, at.offset)

    def assign(self, group: str, tp: TopicPartition, owner: Owner | None) -> None:
        before = self.owners.get((group, tp))
        if owner is None or before is None or owner.member_id != before.member_id:
            self.assigned[group, tp] = len(self.times[group, tp])
        self.owners[group, tp] = owner

    def last_commit(self, group: str, tp: TopicPartition) -> int | None:
        return max(self.times[group, tp][-1:], default=None)

    def last_before_assigned(self, group: str, tp: TopicPartition) -> int | None:
        before = self.times[group, tp][: self.assigned.get((group, tp), 0)]
        return before[-1] if before else None

    def first_since_assigned(self, group: str, tp: TopicPartition) -> int | None:
        since = self.times[group, tp][self.assigned.get((group, tp), 0) :]
        return since[0] if since else None

    def usual_gap(self, group: str, tp: TopicPartition) -> float | None:
        times = self.times[group, tp][-11:]
        gaps = [after - before for before, after in pairwise(times)]
        return statistics.median(gaps) if gaps else None

    def was_silent(self, since: int, until: int) -> bool:
        return self.is_silent or not any(since < each < until for each in self.record_times)

    def first_commit(self, group: str) -> int | None:
        return self.first.get(group)

    def offsets_expired(self, group: str, batch: int) -> bool | None:
        return None


def apply(fold: GroupFold, commits: Commits, record: Logged) -> None:
    """A record as the fold of a log partition passes it on."""
    commits.record_times.append(record.at.timestamp)
    if record.key[:2] not in (b"\0\0", b"\0\1"):
        fold.apply(record.key, record.value, record.at)
        return
    fold.end_write()
    decoded = decode(record.key, record.value)
    assert isinstance(decoded, OffsetCommitRecord)
    if decoded.value is not None:
        group, topic, partition = decoded.key
        if decoded.value.topic_id is not None:
            fold.name_topic(decoded.value.topic_id, topic)
        commits.commit(group, TopicPartition(topic, partition), record.at)


def resumed(fold: GroupFold, commits: Commits) -> GroupFold:
    """A fold that continues from the dumped state, with the rows so far."""
    loaded = GroupFold(log_partition=0, commits=commits)
    loaded.load(fold.dump())
    loaded.rows |= fold.rows
    return loaded


def fold_all(
    log: Iterable[Logged],
    *,
    commits: Commits | None = None,
    options: GroupOptions | None = None,
    log_partition: int = 0,
) -> "Tables":
    commits = commits or Commits()
    fold = GroupFold(log_partition=log_partition, commits=commits, options=options)
    for record in log:
        apply(fold, commits, record)
    fold.end_write()
    return Tables.of(fold)


class Tables(NamedTuple):
    """All rows, by way of Arrow: with a value for each column. `open` has those not ended."""

    groups: list[Row]
    generations: list[Row]
    rebalances: list[Row]
    members: list[Row]
    assignments: list[Row]
    open: dict[str, list[Row]]

    @classmethod
    def of(cls, fold: GroupFold) -> "Tables":
        closed = dict(_as_logged(fold.rows))
        return cls(**closed, open=dict(_as_logged(fold.open_rows())))


def _as_logged(rows: dict[str, list[Row]]) -> Iterator[tuple[str, list[Row]]]:
    for name, some in rows.items():
        yield name, pa.RecordBatch.from_pylist(some, schema=schema.TABLES[name]).to_pylist()
