"""Reads the rows of one group from a history, without Spark."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.history.gaps import Gap
from kohort.history.numbering import values_in
from kohort.history.schema import TABLES, TIME
from kohort.history.state import State
from kohort.history_files.certainty import NO_CUT, Limits, gap_at, limits_of
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.moments import CUTS, Cut, validate_kept
from kohort.history_files.offsets_at import COLUMNS, OffsetAt, offsets_at
from kohort.history_files.snapshot import Snapshot
from kohort.history_files.stored_rows import RECORDED, Filter, StoredRows, add_first_offsets

Row = dict[str, Any]


class GroupReader:
    """The rows of a group, in one log partition, perhaps as they were at a time."""

    def __init__(
        self, directory: HistoryDirectory, group: str, moment: datetime | None = None
    ) -> None:
        """Raises ConfigError for a time of which rows were removed; KohortError."""
        self._files = directory.files
        self._snapshot = directory.snapshot()
        self._rows = StoredRows(self._files, self._snapshot)
        self._group = group
        self.moment = moment
        if moment is not None:
            validate_kept(self._snapshot, moment)
        found = self._find()
        self.log_partition = found[-1] if found else None
        """The log partition with its latest record; None: the history has none."""
        self.other_log_partitions = found[:-1]
        """Those that have earlier records of the group."""
        self._partition = self._snapshot.log_partitions.get(
            -1 if self.log_partition is None else self.log_partition
        )
        self._state = self._load_state()
        self._open = {} if self._state is None else self._state.open_rows()
        self.cut = self._cut() if moment is not None else NO_CUT

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def _find(self) -> list[int]:
        """The log partitions with records of the group, the one with the latest record last.

        If the number of log partitions was changed, a group has several. Records behind the moment
        do not count.
        """
        latest: dict[int, int] = {}
        if not is_utf8(self._group):
            return []
        until = NO_CUT if self.moment is None else pa.scalar(self.moment, TIME).value
        of_group: list[Filter] = [("group", "=", self._group)]
        for table in RECORDED:
            for rows in self._rows.parts(table, of_group, ["log_partition", "time"]):
                times = rows["time"].cast(pa.int64())
                seen = pc.if_else(pc.less_equal(times, until), times, -1)
                found = pa.table({"number": rows["log_partition"], "time": pc.fill_null(seen, -1)})
                for row in found.group_by("number").aggregate([("time", "max")]).to_pylist():
                    number = row["number"]
                    latest[number] = max(latest.get(number, -1), row["time_max"])
        return sorted(latest, key=lambda number: (latest[number], number))

    def _load_state(self) -> State | None:
        if self._partition is None or self._partition.state is None:
            return None
        return State.from_arrow(self._files.read(self._partition.state))

    @property
    def _gaps(self) -> Sequence[Gap]:
        """Those of the log partition, as of now."""
        assert self._state is not None
        known = None if self._partition is None else self._partition.gaps
        return self._state.coverage.known_gaps if known is None else known

    def _cut(self) -> int:
        """The first offset of the log partition whose record is later than the moment."""
        if self.moment is None or self.log_partition is None:
            return NO_CUT
        number = self.log_partition
        cuts = self._rows.first_offsets(self.moment, [number], is_later=True)
        later = pc.field("time") > pa.scalar(self.moment, TIME)
        for table in RECORDED:
            add_first_offsets(cuts, self._open_table(table).filter(later))
        return cuts.get(number, NO_CUT)

    def groups(self) -> list[str]:
        """The ids of all groups."""
        of_tables = (self._rows.read(table, (), ["group"])["group"] for table in RECORDED)
        return sorted(set[str]().union(*map(values_in, of_tables)))

    def coverage(self) -> Row:
        """The row of `coverage` of the log partition, of now."""
        assert self._state is not None
        row: Row = self._state.coverage_row().to_pylist()[0]
        return row

    def is_certain(self) -> bool:
        """Whether no record just before the moment is missing.

        Committed offsets have a certainty of their own.
        """
        return self.gap is None

    @property
    def gap(self) -> Gap | None:
        """The part of the log with the moment, of which records are missing; None: it is whole."""
        return gap_at(self._gaps, self.cut)

    @property
    def limits(self) -> Limits:
        """What the commits tell of the offsets at the moment."""
        return limits_of(self._gaps, self.cut)

    def offsets_at(self) -> list[OffsetAt]:
        """The committed offset of each partition, as it was, by topic and partition."""
        commits = self.table("commits", (), COLUMNS)
        return offsets_at(commits, self.cut, self.limits)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table, as they were, by their offset."""
        return cut_rows(table, self.table(table).to_pylist(), self.cut)

    def table(
        self,
        table: str,
        filters: Sequence[tuple[str, str, Any]] = (),
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows of a table as they are now, stored and open ones; `columns`: default all."""
        names = list(TABLES[table].names if columns is None else columns)
        of_group = ("group", "=", self._group)
        partition = ("log_partition", "=", self.log_partition)
        stored = self._rows.read(table, [partition, of_group, *filters], names)
        expression = pq.filters_to_expression([of_group, *filters])
        return pa.concat_tables([stored, self._open_table(table).filter(expression).select(names)])

    def _open_table(self, table: str) -> pa.Table:
        """The rows of all groups that have not ended, or whose cause is not decided yet."""
        schema = TABLES[table]
        return pa.Table.from_batches([self._open[table]] if table in self._open else [], schema)


def cut_rows(table: str, rows: Iterable[Row], offset: int) -> list[Row]:
    """The rows of a table of one log partition as they were at `offset`, by their own offsets."""
    cut = CUTS[table]
    seen = [row for row in rows if row[cut.begins] < offset]
    return [_cut_row(row, cut, offset) for row in sorted(seen, key=lambda row: row[cut.begins])]


def is_utf8(text: str) -> bool:
    """Whether a text has bytes in UTF-8, as all that Kafka stores: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cut_row(row: Row, cut: Cut, offset: int) -> Row:
    if cut.ends is None or row[cut.ends] is None or row[cut.ends] < offset:
        return row
    return {**row, **dict.fromkeys(cut.unknown), **cut.values}


def text_of(time: datetime | None) -> str | None:
    """A time as ISO 8601 in UTC, to the millisecond."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
