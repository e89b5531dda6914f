"""Writes the rows of tables to Parquet files, compressed by zstd.

Rows are collected until there are enough for a row group, and a file ends after `ROWS_PER_FILE`
rows. So memory is bounded however many rows a log partition has.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.history.schema import STORED_TABLES, TIME
from kohort.history_files.file_system import Files
from kohort.history_files.snapshot import StoredFile

ROWS_PER_GROUP: Final = 128 * 1024
BYTES_PER_GROUP: Final = 64 * 1024 * 1024
ROWS_PER_FILE: Final = 2_000_000
_ERROR: Final = "error"
_FILTERED: Final = (
    "log_partition", "log_offset", "from_offset", "time", "from", "minute", "in_force", "group",
    "topic", "partition",
)  # fmt: skip
TIMES: Final[Mapping[str, tuple[str, str]]] = {
    "commits": ("time", "in_force_time"),  # of a transaction, that of its marker
    "groups": ("time", "time"),
    "generations": ("time", "ended"),
    "rebalances": ("time", "time"),
    "members": ("from", "to"),
    "assignments": ("from", "to"),
    "minutes": ("minute", "minute"),
    "samples": ("time", "time"),
    "findings": ("since", "until"),
}
"""Table → the columns with the first and the last time of a row; the last one may be null."""


class TableFiles:
    """The files of one attempt at a task. `close` returns what was written.

    After an exception `abandon` leaves the files as they are: no snapshot names them.
    """

    def __init__(self, files: Files, name: str, attempt: str) -> None:
        """`name` begins the names of all files; no other attempt has this `attempt`."""
        self.attempt = attempt
        self._files = files
        self._name = f"{name}-{attempt}"
        self._tables: dict[str, _TableFile] = {}
        self._written: list[StoredFile] = []
        self._count = 0

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        file = self._tables.get(table)
        if file is None:
            self._count += 1
            path = f"{table}/{self._name}-{self._count}.parquet"
            file = self._tables[table] = _TableFile(self._files, table, path)
        file.write(rows)
        if file.rows >= ROWS_PER_FILE:
            self._written.append(self._tables.pop(table).close())

    def close(self) -> list[StoredFile]:
        """End all files. They and their names are durable then."""
        self._written += [file.close() for file in self._tables.values()]
        self._tables.clear()
        self._files.sync_directories({file.table for file in self._written})
        return self._written

    def abandon(self) -> None:
        """Release what the open files hold."""
        for file in self._tables.values():
            file.abandon()


class _TableFile:
    """One file."""

    def __init__(self, files: Files, table: str, path: str) -> None:
        self._path = path
        self._schema = STORED_TABLES[table]
        self._time_columns = TIMES[table]
        self._file: BinaryIO = files.create(path)
        self._sink = pa.PythonFile(self._file, "w")
        self._writer: Any = pq.ParquetWriter(self._sink, self._schema, **_format_options(table))
        self._collected: list[pa.RecordBatch] = []
        self._collected_rows = self._collected_bytes = 0
        self._first: int | None = None
        self._last: int | None = None
        self.rows = self._errors = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._collected.append(rows)
        self._collected_rows += rows.num_rows
        self._collected_bytes += rows.nbytes
        self.rows += rows.num_rows
        if _ERROR in self._schema.names:
            self._errors += rows.num_rows - rows.column(_ERROR).null_count
        first, last = (rows.column(name) for name in self._time_columns)
        self._first = _least(self._first, _ms(pc.min(first)))
        self._last = _most(self._last, _ms(pc.max(pc.coalesce(last, first))))
        if self._collected_rows >= ROWS_PER_GROUP or self._collected_bytes >= BYTES_PER_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        if self._collected:
            self._writer.write_table(pa.Table.from_batches(self._collected, self._schema))
            self._collected.clear()
            self._collected_rows = self._collected_bytes = 0

    def close(self) -> StoredFile:
        self._write_group()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._file.close()
        return StoredFile(
            path=self._path, rows=self.rows, bytes=size, first_ms=self._first,
            last_ms=self._last, errors=self._errors,
        )  # fmt: skip

    def abandon(self) -> None:
        self._collected.clear()
        self._writer.is_open = False  # else it would write its footer when it is collected
        with suppress(OSError):
            self._file.close()


@cache
def _format_options(table: str) -> dict[str, Any]:
    """Options of PyArrow's writer for a table.

    Offsets and times ascend in small steps. Their differences take half the space of all else.
    """
    schema = STORED_TABLES[table]
    steady = {field.name for field in schema if field.type == pa.int64() or field.type == TIME}
    return {
        "compression": "zstd",
        "column_encoding": dict.fromkeys(sorted(steady), "DELTA_BINARY_PACKED"),
        # Each column's cost a fifth of the time. These are in the filters of most queries.
        "write_statistics": [name for name in _FILTERED if name in schema.names],
        "use_dictionary": [path for path in _paths(schema) if path not in steady],
    }


def _paths(schema: pa.Schema) -> list[str]:
    """The names of Parquet's columns, which are the leaves of nested ones."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    columns = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [columns.column(number).path for number in range(len(columns))]


def _ms(time: pa.Scalar) -> int | None:
    return None if time.value is None else time.value // 1000


def _least(time: int | None, other: int | None) -> int | None:
    return min((each for each in (time, other) if each is not None), default=None)


def _most(time: int | None, other: int | None) -> int | None:
    return max((each for each in (time, other) if each is not None), default=None)
