"""Reads the rows of tables that a snapshot names, without Spark.

Files whose rows are all too early or too late are not opened. Of others PyArrow skips the row
groups whose statistics do not fit the filters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.history.schema import STORED_TABLES
from kohort.history_files.certainty import NO_CUT
from kohort.history_files.file_system import Files
from kohort.history_files.parquet_reading import parquet_errors, read_rows
from kohort.history_files.snapshot import Snapshot, StoredFile

RECORDED: Final = ("commits", "groups")
"""The tables that together have a row for each record."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST: Final = -(2**63)
_POSITION: Final = ("log_partition", "log_offset", "time")
_ONE: Final = ("log_partition", "=")
"""Of a filter that chooses a log partition."""
Filter = tuple[str, str, Any]
"""Column, operator and value, as PyArrow has them."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored rows of a snapshot. Rows that have not ended are in the states of the fold."""

    files: Files
    snapshot: Snapshot
    _log_partitions: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    """File → the least and the largest log partition of its rows, once it was opened."""

    def read(
        self,
        table: str,
        filters: Sequence[Filter] = (),
        columns: Sequence[str] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> pa.Table:
        """Rows that pass the filters. `since` and `until` choose files only, by their times.

        Raises KohortError for a damaged file.
        """
        parts = self.parts(table, filters, columns, since=since, until=until)
        return pa.concat_tables([_schema(table, columns).empty_table(), *parts])

    def parts(
        self,
        table: str,
        filters: Sequence[Filter] = (),
        columns: Sequence[str] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[pa.Table]:
        """The same, file by file."""
        schema = _schema(table, columns)
        number = next((value for name, by, value in filters if (name, by) == _ONE), None)
        for file in self.snapshot.files_of(table, since, until):
            if number is not None and not self._may_have(file, number):
                continue
            rows = read_rows(self.files, file.path, schema.names, list(filters) or None)
            yield rows.cast(schema)

    def _may_have(self, file: StoredFile, log_partition: int) -> bool:
        """Whether a file may have rows of a log partition; its statistics are read once.

        A history has a file for each log partition, table and day, which PyArrow would open to
        find that all of its row groups are of others.
        """
        known = self._log_partitions.get(file.path)
        if known is None:
            with self.files.open(file.path) as source, parquet_errors(file.path):
                known = _log_partitions(pq.ParquetFile(source).metadata)
            self._log_partitions[file.path] = known
        return known[0] <= log_partition <= known[1]

    def first_offsets(
        self, time: datetime, numbers: Sequence[int] | None = None, *, is_later: bool
    ) -> dict[int, int]:
        """Log partition → first offset whose record is of this time or later.

        `is_later`: only later ones. `numbers`: these log partitions only. Records of transactions
        that are still open are left out: they are in the states.
        """
        least_us = (time - _EPOCH) // timedelta(microseconds=1) + is_later
        chosen = None if numbers is None else sorted(numbers)
        found: dict[int, int] = {}
        for table in RECORDED:
            for file in self.snapshot.files_of(table, since=time):
                with self.files.open(file.path) as source, parquet_errors(file.path):
                    _find_first_offsets(found, pq.ParquetFile(source), least_us, chosen)
        return found


def _schema(table: str, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of some columns of a table; None: of all."""
    schema = STORED_TABLES[table]
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _find_first_offsets(
    found: dict[int, int], file: Any, least_us: int, chosen: Sequence[int] | None
) -> None:
    """Add the first offsets of a file. Row groups that can have no earlier one are not read."""
    metadata = file.metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        (first, last), (offset, _), (_, latest_us) = (
            _bounds(group, metadata.schema.names.index(name)) for name in _POSITION
        )
        of_group: Iterable[int] = range(first, last + 1)
        if chosen is not None:
            of_group = (each for each in chosen if first <= each <= last)
        if latest_us < least_us or all(found.get(each, NO_CUT) <= offset for each in of_group):
            continue
        rows = file.read_row_group(number, list(_POSITION))
        is_counted = pc.greater_equal(rows["time"].cast(pa.int64()), least_us)
        if chosen is not None:
            is_chosen = pc.is_in(rows["log_partition"], pa.array(chosen, pa.int32()))
            is_counted = pc.and_(is_counted, is_chosen)
        add_first_offsets(found, rows.filter(is_counted))


def _log_partitions(metadata: Any) -> tuple[int, int]:
    """The least and the largest log partition, by the statistics of all row groups."""
    column = metadata.schema.names.index(_ONE[0])
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    bounds = [_bounds(group, column) for group in groups] or [(_LEAST, NO_CUT)]
    return min(least for least, _ in bounds), max(largest for _, largest in bounds)


def _bounds(group: Any, column: int) -> tuple[int, int]:
    """The least and the largest number of a column in a row group; wide ones if not known."""
    known = group.column(column).statistics
    if known is None or not known.has_min_max:
        return _LEAST, NO_CUT
    return known.min_raw, known.max_raw


def add_first_offsets(found: dict[int, int], rows: pa.Table) -> None:
    """Log partition → the least `log_offset`, of `found` and of `rows`."""
    least = rows.group_by("log_partition").aggregate([("log_offset", "min")])
    columns = least["log_partition"].to_pylist(), least["log_offset_min"].to_pylist()
    for number, offset in zip(*columns, strict=True):
        found[number] = min(found.get(number, NO_CUT), offset)
