"""Reads whole groups from a history, one after the other, in bounded memory and without Spark.

    for history in group_histories(directory, since=yesterday):
        print(history.group, len(history.rebalances), history.commits.num_rows)

Each log partition is read once. If it has many rows, it is read in parts of some groups. So memory
holds the rows of a part: about `PART_ROWS`, or those of one group that has more.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.group_fold import GroupOptions
from kohort.history.numbering import integers, values_in
from kohort.history.state import State
from kohort.history_files.certainty import NO_CUT
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.lags import SamplesByTopic, lags_of, later, samples_of
from kohort.history_files.log_partition_rows import (
    COMMIT_COLUMNS,
    LISTED,
    LogPartitionRows,
    Period,
    RowsByGroup,
)
from kohort.history_files.moments import validate_kept
from kohort.history_files.reading import Row
from kohort.history_files.snapshot import Snapshot
from kohort.history_files.stored_rows import Filter, StoredRows

SAMPLED: Final = "samples"
"""Table of samples."""
LAG_ROWS: Final = 400
"""A partition with samples has about so many rows of lag in a day."""
PART_ROWS: Final = 250_000
"""Rows that are read at once: with what rules and reports make of them, some 300 MB."""
DICT_WEIGHT: Final = 8
"""A row as a dict takes the memory of so many rows of a table."""
_COUNTED: Final = ("commits", "minutes", "generations", "members", "assignments")
"""Tables that together have rows of each group, and most of all rows."""
_KEY: Final = ["log_partition", "group"]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """What the history has of a group in a period."""

    group: str
    log_partitions: tuple[int, ...]
    """Mostly one. A group has several if the number of log partitions was changed."""
    since: datetime | None
    """Begin of the period; None: that of the history."""
    end: datetime | None
    """End of the period, by default the latest time of a record or sample; None: no record."""
    generations: list[Row]
    """Those that had not ended before `since`, in order; so are members and assignments."""
    rebalances: list[Row]
    """Those that began in the period, in order."""
    members: list[Row]
    assignments: list[Row]
    commits: pa.Table
    """COMMITS that came into force in the period, in that order."""
    earlier: pa.Table
    """COMMITTED at `since`, as far as it is known. Empty without `since`."""
    open_commits: pa.Table
    """COMMITS of transactions that had not ended."""
    minutes: pa.Table
    """MINUTES of the period, in order. The last one of a partition may not be over."""
    lag: pa.Table
    """LAG at the times of samples; empty if there are none."""
    samples: pa.Table
    """SAMPLES of the period, of its topics."""
    coverage: list[Row]
    """Of each log partition, as of now."""
    options: GroupOptions
    """Configs of the brokers by which the log was folded."""
    is_complete: bool
    """Whether no record of the period is missing. Else what is not here may have happened."""


def group_histories(
    directory: HistoryDirectory,
    groups: Collection[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    commit_columns: Sequence[str] = COMMIT_COLUMNS,
) -> Iterator[GroupHistory]:
    """All groups, or the named ones that have rows: by log partition, then in order of their ids.

    `until` shows all rows as they were then. `commit_columns`: those that `commits` is to have,
    beside the key, the position and what was in force before.

    Raises ConfigError for a time of which rows were removed; KohortError.
    """
    histories = GroupHistories(directory, since, until, commit_columns)
    for part in histories.parts(groups):
        yield from histories.read(part)


def end_of(directory: HistoryDirectory) -> datetime | None:
    """The latest time of a record or a sample; None: there is none."""
    snapshot = directory.snapshot()
    paths = [stored.state for stored in snapshot.log_partitions.values()]
    states = (State.from_arrow(directory.files.read(path)) for path in paths if path is not None)
    times = [*map(_last_time, states), _last_sample(snapshot)]
    return max((time for time in times if time is not None), default=None)


def _last_time(state: State) -> datetime | None:
    time: datetime | None = state.coverage_row().to_pylist()[0]["last_time"]
    return time


def _last_sample(snapshot: Snapshot) -> datetime | None:
    """Time of the last sample, rounded up to a ms."""
    times = [file.last_ms for file in snapshot.files_of(SAMPLED)]
    last_ms = max((time for time in times if time is not None), default=None)
    return None if last_ms is None else datetime.fromtimestamp((last_ms + 1) / 1000, UTC)


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Groups that are read at once, and their log partitions."""

    log_partitions: tuple[int, ...]
    groups: tuple[str, ...]
    rows: int
    """About how many rows they have, by what they take in memory."""
    begins_later: datetime | None = None
    """Begin of the period of a group that has too many commits for the whole one."""

    def narrowed(self, groups: Collection[str]) -> "GroupPart":
        """The part with these groups only."""
        return replace(self, groups=tuple(group for group in self.groups if group in groups))


class _Lags(NamedTuple):
    """Lag and samples of the groups of a part."""

    lag: RowsByGroup
    samples: SamplesByTopic


_Sizes: TypeAlias = dict[str, Counter[int]]
"""Group → log partition → about how many rows it has there."""


class GroupHistories:
    """The groups of one snapshot of a history in a period; they are read in parts.

    Once it has parts, other processes can read some of them: it can be pickled.
    """

    def __init__(
        self,
        directory: HistoryDirectory,
        since: datetime | None = None,
        until: datetime | None = None,
        commit_columns: Sequence[str] = COMMIT_COLUMNS,
        most_commits: int | None = None,
    ) -> None:
        """As `group_histories`. `most_commits`: the period of a group with more begins later.

        Raises ConfigError for a time of which rows were removed.
        """
        self._files = directory.files
        self._snapshot = directory.snapshot()
        self._stored = StoredRows(self._files, self._snapshot)
        if until is not None:
            validate_kept(self._snapshot, until)
        self._since = None if since is None else since.astimezone(UTC)
        self._until = None if until is None else until.astimezone(UTC)
        self._commit_columns = commit_columns
        self._most_commits = most_commits
        self._end: datetime | None = None
        self._starts: Mapping[int, int] = {}
        """Log partition → first offset of the period."""
        self._cuts: Mapping[int, int] = {}
        """Log partition → first offset behind the period."""

    # --- what is read together

    def parts(self, groups: Collection[str] | None = None) -> list[GroupPart]:
        """All groups, or those of the named ones that have rows, in parts that fit into memory.

        By log partition, then in order of their ids. Raises KohortError.
        """
        if groups is not None and not groups:
            return []
        if self._since is not None:
            self._starts = self._stored.first_offsets(self._since, is_later=False)
        if self._until is not None:
            self._cuts = self._stored.first_offsets(self._until, is_later=True)
        sizes = self._sizes(None if groups is None else set(groups))
        together: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for group in sorted(sizes):
            together[tuple(sorted(sizes[group]))].append(group)
        return [
            self._part(numbers, part, sum(sizes[group].total() for group in part))
            for numbers, names in sorted(together.items())
            for part in _limited(names, sizes)
        ]

    def _part(self, numbers: tuple[int, ...], groups: tuple[str, ...], rows: int) -> GroupPart:
        part = GroupPart(numbers, groups, rows)
        if self._most_commits is None or len(groups) > 1 or rows <= self._most_commits:
            return part
        time = self._time_of_latest(numbers, groups[0], self._most_commits)
        if time is None:
            return part
        return replace(part, rows=self._most_commits, begins_later=time)

    def _time_of_latest(self, numbers: tuple[int, ...], group: str, count: int) -> datetime | None:
        """When the first of the latest `count` commits of a group came into force.

        None: it has no more than these in the period.
        """
        filters: list[Filter] = [("log_partition", "in", list(numbers)), ("group", "=", group)]
        if self._since is not None:
            filters.append(("in_force_time", ">=", self._since))
        if self._until is not None:
            filters.append(("in_force_time", "<=", self._until))
        parts = self._stored.parts("commits", filters, ["in_force_time"], since=self._since)
        total, latest = 0, np.empty(0, np.int64)
        for part in parts:
            times = integers(part["in_force_time"].drop_null())
            total += len(times)
            latest = np.sort(np.concatenate((latest, times)))[-count:]
        return _EPOCH + timedelta(microseconds=int(latest[0])) if total > count else None

    def _sizes(self, groups: Collection[str] | None) -> _Sizes:
        sizes: _Sizes = defaultdict(Counter)
        chosen = None if groups is None else pa.array(sorted(groups), pa.string())
        filters: list[Filter] = [] if groups is None else [("group", "in", sorted(groups))]
        for table in _COUNTED:
            weight = DICT_WEIGHT if table in LISTED else 1
            # Later commits tell what was in force before them.
            until = None if table == "commits" else self._until
            parts = self._stored.parts(table, filters, _KEY, since=self._since, until=until)
            for rows in parts:
                _add_sizes(sizes, rows, weight)
        lag_rows = 1 if _last_sample(self._snapshot) is None else LAG_ROWS
        for number in sorted(self._snapshot.log_partitions):
            if (state := self._state(number)) is not None:
                for rows, weight in _rows_of_state(state, lag_rows):
                    of_chosen = rows if chosen is None else rows.filter(_is_in(rows, chosen))
                    _add_sizes(sizes, of_chosen, weight)
                self._reach(_last_time(state))
        self._reach(_last_sample(self._snapshot))
        return sizes

    def _state(self, number: int) -> State | None:
        path = self._snapshot.log_partitions[number].state
        return None if path is None else State.from_arrow(self._files.read(path))

    def _reach(self, time: datetime | None) -> None:
        """The period ends with the latest record or sample."""
        self._end = max((each for each in (self._end, time) if each is not None), default=None)

    # --- rows

    def read(self, part: GroupPart) -> Iterator[GroupHistory]:
        """The groups of a part, in order. Raises KohortError."""
        of_all = [self._rows(number, part) for number in part.log_partitions]
        readers = [each for each in of_all if each is not None]
        lags = self._lags(part, readers)
        for group in part.groups:
            yield self._history(group, self._since_of(part), readers, lags)

    def _lags(self, part: GroupPart, readers: Sequence[LogPartitionRows]) -> _Lags:
        commits = pa.concat_tables([each.commits.rows for each in readers])
        earlier = pa.concat_tables([each.earlier.rows for each in readers])
        topics: Collection[str] = ()
        if _last_sample(self._snapshot) is not None:
            topics = _topics(commits, earlier, (row for each in readers for row in each.owned()))
        since = self._since_of(part)
        samples = samples_of(self._files, self._snapshot, topics, since, self._until)
        lag = lags_of(commits, earlier, samples, since)
        return _Lags(
            RowsByGroup(lag, part.groups, ("topic", "partition", "time")),
            SamplesByTopic(later(samples, since)),
        )

    def _rows(self, number: int, part: GroupPart) -> LogPartitionRows | None:
        state = self._state(number)
        if state is None:
            return None
        period = Period(
            self._since_of(part),
            self._until,
            self._start(part, number, state.next_offset),
            self._cuts.get(number, NO_CUT),
            self._removed_until,
        )
        return LogPartitionRows(self._stored, state, part.groups, period, self._commit_columns)

    def _start(self, part: GroupPart, number: int, end: int) -> int:
        """First offset of the period of a part in a log partition, which ends at `end`."""
        if part.begins_later is not None:
            starts = self._stored.first_offsets(part.begins_later, [number], is_later=False)
            return starts.get(number, end)
        return 0 if self._since is None else self._starts.get(number, end)

    def _since_of(self, part: GroupPart) -> datetime | None:
        return part.begins_later or self._since

    @property
    def _removed_until(self) -> datetime | None:
        """Time before which `--keep` has removed rows."""
        removed = self._snapshot.removed_until_ms
        return None if removed is None else datetime.fromtimestamp(removed / 1000, UTC)

    def _history(
        self,
        group: str,
        since: datetime | None,
        readers: Sequence[LogPartitionRows],
        lags: _Lags,
    ) -> GroupHistory:
        commits = pa.concat_tables([each.commits.of(group) for each in readers])
        earlier = pa.concat_tables([each.earlier.of(group) for each in readers])
        assignments = _listed(readers, "assignments", group)
        topics = () if lags.samples.is_empty else _topics(commits, earlier, assignments)
        return GroupHistory(
            group=group,
            log_partitions=tuple(each.log_partition for each in readers),
            since=since,
            end=self._until or self._end,
            generations=_listed(readers, "generations", group),
            rebalances=_listed(readers, "rebalances", group),
            members=_listed(readers, "members", group),
            assignments=assignments,
            commits=commits,
            earlier=earlier,
            open_commits=pa.concat_tables([each.open_commits.of(group) for each in readers]),
            minutes=pa.concat_tables([each.minutes.of(group) for each in readers]),
            lag=lags.lag.of(group),
            samples=lags.samples.of(topics),
            coverage=[each.coverage for each in readers],
            options=readers[0].options,
            is_complete=all(each.is_complete for each in readers),
        )


def _topics(commits: pa.Table, earlier: pa.Table, assignments: Iterable[Row]) -> list[str]:
    """Topics of which a partition was committed or owned."""
    committed = values_in(commits["topic"]) | values_in(earlier["topic"])
    return sorted(committed | {row["topic"] for row in assignments})


def _listed(readers: Iterable[LogPartitionRows], table: str, group: str) -> list[Row]:
    return [row for each in readers for row in each.rows[table].get(group, ())]


def _rows_of_state(state: State, lag_rows: int) -> Iterator[tuple[pa.Table, int]]:
    """The rows that have not ended, and commits in force, by group; and what a row weighs."""
    batches = [(batch, 1) for batch in state.open_rows().values()]
    for batch, weight in (*batches, (state.committed(), lag_rows)):
        rows = pa.Table.from_batches([batch]).select(_KEY)
        yield rows.filter(pc.is_valid(rows["group"])), weight


def _is_in(rows: pa.Table, groups: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(rows["group"], groups)


def _add_sizes(sizes: _Sizes, rows: pa.Table, weight: int) -> None:
    counts = rows.filter(pc.is_valid(rows["group"])).group_by(_KEY).aggregate([([], "count_all")])
    for row in counts.to_pylist():
        sizes[row["group"]][row["log_partition"]] += row["count_all"] * weight


def _limited(groups: Iterable[str], sizes: _Sizes) -> Iterator[tuple[str, ...]]:
    """`groups` in parts of at most about PART_ROWS rows."""
    part: list[str] = []
    rows = 0
    for group in groups:
        size = sizes[group].total()
        if part and rows + size > PART_ROWS:
            yield tuple(part)
            part, rows = [], 0
        part.append(group)
        rows += size
    if part:
        yield tuple(part)
