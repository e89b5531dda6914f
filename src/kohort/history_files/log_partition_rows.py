"""The rows of some groups of one log partition in a period: stored ones, and those of the state.

Log positions order everything. `until` cuts a log partition before its first record with a later
time, see `moments`. Commits that came into force later are read as well: the first one of a
partition tells what was in force before it. A partition without any has its commit in the state.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.gaps import Gap
from kohort.history.numbering import Numbers, are_ascending, names_in, order_of, places_of
from kohort.history.rows import rows_of
from kohort.history.schema import COMMITS, COMMITTED, TABLES, TIME
from kohort.history.state import State
from kohort.history_files.certainty import NO_CUT
from kohort.history_files.moments import CUTS
from kohort.history_files.reading import Row, cut_rows
from kohort.history_files.stored_rows import Filter, StoredRows, add_first_offsets

LISTED: Final = ("generations", "rebalances", "members", "assignments")
"""Tables whose rows are dicts."""
COMMIT_COLUMNS: Final = tuple(
    name
    for name in COMMITS.names
    if name not in ("type", "version", "error", "raw_key", "raw_value", "producer_epoch")
)
_NEEDED: Final = (
    "log_partition", "log_offset", "time", "txn", "in_force", "group", "topic", "partition",
    "topic_id", "committed", "in_force_time", "previous", "previous_time", "kind", "certainty",
)  # fmt: skip
"""Columns of commits that are read in any case."""
_ENDS: Final[Mapping[str, str]] = {
    "generations": "ended",
    "rebalances": "time",
    "members": "to",
    "assignments": "to",
    "minutes": "minute",
}
"""Table → the time up to which a row says something."""
_MINUTE: Final = timedelta(minutes=1)
_FIRST: Final = pc.ScalarAggregateOptions(skip_nulls=False)


class Period(NamedTuple):
    """A period in one log partition."""

    since: datetime | None
    until: datetime | None
    start: int
    """First stored offset that is not before `since`."""
    cut: int
    """First stored offset that is later than `until`; NO_CUT: none."""
    removed_until: datetime | None
    """Time before which rows were removed from the history."""


class RowsByGroup:
    """The rows of a table, sorted by group."""

    def __init__(self, table: pa.Table, groups: Sequence[str], order: Sequence[str]) -> None:
        """`groups`: all groups that the table has. `order`: columns that order the rows of one."""
        numbers = places_of(table["group"], pa.array(groups, pa.string()))
        keys = [_key(table[name]) for name in order]
        # Stored rows are in the order of the log, so that most tables only lack that of groups.
        places = order_of(numbers, *(() if are_ascending(*keys) else keys))
        self.rows = table if places is None else table.take(pa.array(places))
        """Those of all groups."""
        counts = np.bincount(numbers, minlength=len(groups))
        starts = np.cumsum(counts) - counts
        slices = zip(starts.tolist(), counts.tolist(), strict=True)
        self._slices = dict(zip(groups, slices, strict=True))

    def of(self, group: str) -> pa.Table:
        return self.rows.slice(*self._slices[group])


class LogPartitionRows:
    """The rows of `groups`, by group."""

    def __init__(
        self,
        stored: StoredRows,
        state: State,
        groups: tuple[str, ...],
        period: Period,
        commit_columns: Sequence[str],
    ) -> None:
        self.log_partition = state.log_partition
        self.options = state.options
        self.coverage: Row = state.coverage_row().to_pylist()[0]
        self._stored = stored
        self._groups = groups
        self._open = {
            table: pa.Table.from_batches([rows]) for table, rows in state.open_rows().items()
        }
        self._period = period._replace(cut=self._cut(period))
        self.is_complete = self._is_complete(state.coverage.known_gaps)
        self.rows = {table: self._listed(table) for table in LISTED}
        """Table → group → its rows, in order."""
        self.minutes = self._by_group(self._minutes(), "minute", "topic", "partition")
        columns = [name for name in COMMITS.names if name in (*commit_columns, *_NEEDED)]
        counted, self.open_commits = self._commits(columns)
        self.earlier = self._by_group(self._earlier(counted, state), "topic", "partition")
        self.commits = self._by_group(self._seen(counted, "in_force"), "in_force", "log_offset")

    def owned(self) -> Iterator[Row]:
        """The assignments of all groups."""
        return (row for rows in self.rows["assignments"].values() for row in rows)

    def _by_group(self, table: pa.Table, *order: str) -> RowsByGroup:
        return RowsByGroup(table, self._groups, order)

    def _cut(self, period: Period) -> int:
        """Records of open transactions are in the state only."""
        if period.until is None:
            return period.cut
        rows = self._open["commits"]
        found = {self.log_partition: period.cut}
        add_first_offsets(found, rows.filter(pc.greater(rows["time"], _scalar(period.until))))
        return found[self.log_partition]

    def _is_complete(self, gaps: Iterable[Gap]) -> bool:
        since, _, start, cut, removed_until = self._period
        if removed_until is not None and (since is None or since < removed_until):
            return False
        return not any(
            gap.hole <= cut
            and (gap.hole == start or gap.complete_from is None or gap.complete_from > start)
            for gap in gaps
        )

    # --- tables

    def _read(
        self, table: str, columns: Sequence[str], filters: Iterable[Filter], *, later: bool = False
    ) -> pa.Table:
        """Stored rows of the groups; `later`: also of files that are later than the period."""
        key: list[Filter] = [
            ("log_partition", "=", self.log_partition),
            ("group", "in", list(self._groups)),
        ]
        until = None if later else self._period.until
        return self._stored.read(
            table, [*key, *filters], columns, since=self._period.since, until=until
        )

    def _all(self, table: str) -> pa.Table:
        """Stored and open rows that say something about the period, or later ones."""
        since, names = self._period.since, TABLES[table].names
        open_rows = self._of_groups(self._open[table])
        if since is None:
            return pa.concat_tables([self._read(table, names, ()), open_rows])
        earliest = since - _MINUTE if table == "minutes" else since
        ends = _ENDS[table]
        stored = self._read(table, names, [(ends, ">=", earliest)])
        is_late = pc.or_kleene(
            pc.is_null(open_rows[ends]), pc.greater_equal(open_rows[ends], _scalar(earliest))
        )
        return pa.concat_tables([stored, open_rows.filter(is_late)])

    def _of_groups(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.is_in(rows["group"], pa.array(self._groups, pa.string())))

    def _listed(self, table: str) -> Mapping[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in cut_rows(table, rows_of(self._all(table)), self._period.cut):
            found[row["group"]].append(row)
        return found

    def _minutes(self) -> pa.Table:
        return self._seen(self._all("minutes"), CUTS["minutes"].begins)

    def _seen(self, rows: pa.Table, column: str) -> pa.Table:
        """The rows whose offset in this column is before the cut."""
        cut = self._period.cut
        return rows if cut == NO_CUT else rows.filter(pc.less(rows[column], cut))

    # --- commits

    def _commits(self, columns: Sequence[str]) -> tuple[pa.Table, RowsByGroup]:
        """Commits that came into force in the period or later, and those that were open then."""
        since, until, _, cut, _ = self._period
        filters: list[Filter] = [] if since is None else [("in_force_time", ">=", since)]
        stored = self._read("commits", columns, filters, later=True)
        if stored["in_force"].null_count:
            stored = stored.filter(pc.is_valid(stored["in_force"]))
        open_rows = self._of_groups(self._open["commits"]).select(columns)
        is_counted = pc.is_valid(open_rows["in_force"])  # a tombstone whose cause is not decided
        waiting = open_rows.filter(pc.equal(open_rows["txn"], "open"))
        counted = pa.concat_tables([stored, open_rows.filter(is_counted)])
        if until is not None:
            ends_later = pc.greater_equal(counted["in_force"], cut)
            waiting = pa.concat_tables([waiting, counted.filter(ends_later)])
            waiting = waiting.filter(pc.less(waiting["log_offset"], cut))
        if since is not None:
            counted = counted.filter(pc.greater_equal(counted["in_force_time"], _scalar(since)))
        return counted, self._by_group(waiting, "log_offset")

    def _earlier(self, counted: pa.Table, state: State) -> pa.Table:
        """The commits in force at the beginning of the period."""
        if self._period.since is None:
            return COMMITTED.empty_table()
        order = ["in_force", "log_offset"]
        key = ["log_partition", "group", "topic", "partition"]
        firsts = (
            counted.select([*key, *order, *_BEFORE])
            .sort_by([(name, "ascending") for name in order])
            .group_by(key, use_threads=False)
            .aggregate([(name, "first", _FIRST) for name in _BEFORE])
        )
        is_known = pc.and_(
            pc.is_valid(firsts["previous_first"]), pc.equal(firsts["certainty_first"], "exact")
        )
        before = firsts.filter(is_known).select([*key, "previous_first", "previous_time_first"])
        now = self._of_groups(pa.Table.from_batches([state.committed()]))
        unchanged = now.join(firsts.select(key), key, join_type="left anti")
        return pa.concat_tables([
            before.rename_columns(COMMITTED.names).cast(COMMITTED),
            unchanged.select(COMMITTED.names).cast(COMMITTED),
        ])  # fmt: skip


_BEFORE: Final = ("previous", "previous_time", "certainty")
_LATEST: Final = 2**63 - 1


def _key(column: pa.ChunkedArray) -> Numbers:
    """Numbers in the order of the values of a column; a time that is null is after all others."""
    if pa.types.is_string(column.type):
        return places_of(column, names_in(column))
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), _LATEST).to_numpy()
    return numbers


def _scalar(time: datetime) -> Any:
    return pa.scalar(time, TIME)
