"""Resets: committed offsets that were set from outside the group, found in rows of `commits`.

A reset is a set of commits of one group in one topic, and

- they came from outside: the group had no members then,
- they have one commit time, as all commits of one request have,
- they are in at least half of the partitions of the topic that the group had committed,
- one of them changed an offset, and none of them is a usual advance.

A tool does not commit otherwise than Spark, Kafka Connect or a simple consumer does. So an advance
is usual if the partition's last commits came from outside too, for the most part, and went forward
at a like pace. An advance from outside is not usual where members or transactions commit. Catching
up after a pause is usual: the time that has passed counts.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.rows import values_of

LAST: Final = 10
"""Commits of a partition that tell what is usual there."""
PACE: Final = 10
"""How many times the usual advance, or the usual pace, is no usual advance any more."""
_ORDER: Final = ("log_partition", "in_force", "log_offset")
_COLUMNS: Final = (
    *_ORDER, "group", "topic", "partition", "kind", "origin", "previous", "committed", "advance",
    "commit_time", "in_force_time",
)  # fmt: skip
_MOVES: Final = ("rewind", "advance")
_SET: Final = (*_MOVES, "repeat", "first")
"""Kinds of commits that can be part of a reset."""


@dataclass(frozen=True, slots=True)
class ResetPartition:
    """One partition of a reset."""

    partition: int
    log_offset: int
    previous: int | None
    """The committed offset before; None: there was none, or it is not known."""
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """One reset of a group's offsets in one topic."""

    group: str
    topic: str
    log_partition: int
    time: datetime | None
    """Record time of its first commit; None if it is outside the calendar, as `commit_time`."""
    commit_time: datetime | None
    partitions: tuple[ResetPartition, ...]
    """By their numbers."""
    known_partitions: int
    """Partitions of the topic that the group had committed by then, these included."""

    @property
    def log_offset(self) -> int:
        """Log offset of its first commit."""
        return min(each.log_offset for each in self.partitions)


def find_resets(commits: pa.Table) -> list[Reset]:
    """All resets in rows of `commits`, of any number of groups and in any order, by log position.

    The rows of a partition before its reset tell what is usual there: pass all that there are.
    Rows that never came into force are left out.
    """
    requests = _requests(_relevant(commits))
    resets = [reset for request in requests if (reset := request.reset()) is not None]
    return sorted(resets, key=lambda reset: (reset.log_partition, reset.log_offset))


def _relevant(commits: pa.Table) -> pa.Table:
    """The rows in force of topics with moves from outside, in the order in which they counted."""
    commits = commits.select(_COLUMNS)
    is_move = pc.and_(
        pc.equal(commits["origin"], "outside"), pc.is_in(commits["kind"], pa.array(_MOVES))
    )
    topics = pc.unique(commits.filter(is_move)["topic"])
    in_force = commits.filter(
        pc.and_(pc.is_valid(commits["in_force"]), pc.is_in(commits["topic"], topics))
    )
    return in_force.sort_by([(name, "ascending") for name in _ORDER])


class _Commit(NamedTuple):
    """A row, by `_COLUMNS`."""

    log_partition: int
    in_force: int
    log_offset: int
    group: str
    topic: str
    partition: int
    kind: str
    origin: str | None
    previous: int | None
    committed: int
    advance: int | None
    commit_time: datetime | None
    in_force_time: datetime | None


@dataclass(slots=True)
class _Usual:
    """The last commits of a partition."""

    origins: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST))
    """Whether each came from outside."""
    advances: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=LAST))
    """Each that went forward: by how much, and the seconds since the commit before."""
    last: datetime | None = None

    def is_usual(self, commit: _Commit) -> bool:
        """Whether a commit from outside is an advance as before."""
        if commit.kind != "advance" or 2 * sum(self.origins) <= len(self.origins):
            return False
        if not self.advances or commit.advance is None:
            return True
        if commit.advance <= PACE * median(advance for advance, _ in self.advances):
            return True
        passed = sum(seconds for _, seconds in self.advances)
        pace = sum(advance for advance, _ in self.advances) / passed if passed else 0.0
        return commit.advance <= PACE * pace * self._since_last(commit)

    def add(self, commit: _Commit) -> None:
        self.origins.append(commit.origin == "outside")
        if commit.kind == "advance" and commit.advance is not None:
            self.advances.append((commit.advance, self._since_last(commit)))
        self.last = commit.in_force_time or self.last

    def _since_last(self, commit: _Commit) -> float:
        if self.last is None or commit.in_force_time is None:
            return 0.0
        return max((commit.in_force_time - self.last).total_seconds(), 0.0)


@dataclass(slots=True)
class _Request:
    """Commits from outside, of one group in one topic with one commit time."""

    commits: list[_Commit] = field(default_factory=list)
    has_usual: bool = False
    known_partitions: int = 0

    def reset(self) -> Reset | None:
        changes = any(commit.kind in _MOVES for commit in self.commits)
        last = {commit.partition: commit for commit in self.commits}
        if self.has_usual or not changes or 2 * len(last) < self.known_partitions:
            return None
        first = self.commits[0]
        return Reset(
            group=first.group,
            topic=first.topic,
            log_partition=first.log_partition,
            time=first.in_force_time,
            commit_time=first.commit_time,
            partitions=tuple(
                ResetPartition(number, commit.log_offset, commit.previous, commit.committed)
                for number, commit in sorted(last.items())
            ),
            known_partitions=self.known_partitions,
        )


_Topic: TypeAlias = tuple[int, str, str]


def _requests(commits: pa.Table) -> "list[_Request]":
    requests: defaultdict[Any, _Request] = defaultdict(_Request)
    partitions: defaultdict[_Topic, set[int]] = defaultdict(set)
    usual: defaultdict[tuple[_Topic, int], _Usual] = defaultdict(_Usual)
    for commit in _rows(commits):
        topic = commit.log_partition, commit.group, commit.topic
        before = usual[topic, commit.partition]
        partitions[topic].add(commit.partition)
        if commit.origin == "outside" and commit.kind in _SET:
            request = requests[topic, commit.commit_time]
            request.commits.append(commit)
            request.has_usual |= before.is_usual(commit)
            request.known_partitions = len(partitions[topic])
        if commit.kind in _SET:
            before.add(commit)
    return list(requests.values())


def _rows(commits: pa.Table) -> Iterator[_Commit]:
    for batch in commits.to_batches():
        columns = [values_of(batch.column(name)) for name in _COLUMNS]
        yield from map(_Commit._make, zip(*columns, strict=True))
