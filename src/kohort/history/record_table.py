"""The records of a call of the fold, as a table of numbers for the kernels.

Each line of the table is one field, each column a record. First come records of transactions that
are still open, from earlier calls, then those of the call.
"""

import threading
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.errors import KohortError
from kohort.history.schema import LATEST_MS, RECORDS

Array: TypeAlias = Any

_MARKERS: Final = {"commit": fk.COMMIT_MARKER, "abort": fk.ABORT_MARKER}
_NOTHING: Final[Array] = np.empty(0, np.uint8)
_LATEST_US: Final = LATEST_MS * 1_000 + 999
_NO_TIME_US: Final = -1_000
"""Record.NO_TIMESTAMP of Kafka, in µs."""


class Strings(NamedTuple):
    """A column of byte strings, as kernels take it."""

    data: Array
    ends: Array
    nulls: Array
    """1 for each null; empty if there are none."""

    @classmethod
    def of(cls, values: pa.Array) -> "Strings":
        if not len(values):
            return cls(_NOTHING, np.zeros(1, np.int32), _NOTHING)
        _, ends, data = values.buffers()
        first = values.offset
        return cls(
            _NOTHING if data is None else np.frombuffer(data, np.uint8),
            np.frombuffer(ends, np.int32)[first : first + len(values) + 1],
            values.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
            if values.null_count
            else _NOTHING,
        )

    def at(self, row: int) -> bytes | None:
        """The string of a row."""
        if len(self.nulls) and self.nulls[row]:
            return None
        return bytes(self.data[self.ends[row] : self.ends[row + 1]])


class Pending(NamedTuple):
    """Records of open transactions, in log order."""

    rows: Array
    """Columns of the table of records; `METADATA_AT` is from the end of `metadata`, below 0."""
    metadata: Array

    @classmethod
    def none(cls) -> "Pending":
        return cls(np.empty((fk.RECORD_LINES, 0), np.int64), _NOTHING)

    @classmethod
    def of(cls, rows: Array, metadata: Array) -> "Pending":
        """Records with their `METADATA_SIZE`; sets `METADATA_AT`."""
        sizes = rows[ck.METADATA_SIZE]
        rows[ck.METADATA_AT] = np.cumsum(sizes) - sizes - len(metadata)
        return cls(rows, metadata)

    @property
    def size(self) -> int:
        return int(self.rows.shape[1])


class RecordTable(NamedTuple):
    """Records of transactions that are open from before, and those of one call."""

    rows: Array
    keys: Strings
    values: Strings
    earlier: Pending

    @property
    def first(self) -> int:
        """Column of the first record of the call."""
        return self.earlier.size

    def key(self, row: int) -> bytes | None:
        """Key of an `OTHER` record, without Redpanda's prefix."""
        at, size = int(self.rows[ck.KEY_AT, row]), int(self.rows[ck.KEY_SIZE, row])
        return None if size < 0 else bytes(self.keys.data[at : at + size])

    def value(self, row: int) -> bytes | None:
        return self.values.at(row - self.first)

    def metadata(self, records: Any) -> Array:
        """The metadata of records, one after the other; `records`: lines of the table by number."""
        sizes = records[ck.METADATA_SIZE]
        data: Array = np.empty(int(sizes.sum()), np.uint8)
        if len(data):
            parts = np.stack([records[ck.METADATA_AT], sizes])
            ck.gather(self.values.data, self.earlier.metadata, len(data), parts, data)
        return data


class _Scratch(threading.local):
    """Memory that calls use one after the other: fresh pages cost more than decoding."""

    def __init__(self) -> None:
        self._memory: dict[str, Array] = {}

    def table(self, name: str, lines: int, columns: int) -> Array:
        size = lines * columns
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size + size // 4, np.int64)
        return memory[:size].reshape(lines, columns)


scratch: Final = _Scratch()


def read_records(earlier: Pending, records: pa.RecordBatch) -> RecordTable:
    """The records of a call; valid until the next call in this thread.

    Raises KohortError if columns are missing or have other types.
    """
    key, value = column(records, "key"), column(records, "value")
    keys, values = Strings.of(key), Strings.of(value)
    first, count = earlier.size, records.num_rows
    rows = scratch.table("rows", fk.RECORD_LINES, first + count)
    rows[:, :first] = earlier.rows
    ck.decode_commits(*keys, *values, first, rows)
    own = rows[:, first:]
    own[fk.LOG_OFFSET] = _numbers(records, "offset")
    own[fk.TIME] = _times(_numbers(records, "timestamp"))
    own[fk.LOG_LEADER_EPOCH] = _numbers(records, "partitionLeaderEpoch")
    own[fk.BATCH_OFFSET] = _numbers(records, "batchOffset")
    own[fk.PRODUCER_ID] = _numbers(records, "producerId")
    own[fk.PRODUCER_EPOCH] = _numbers(records, "producerEpoch")
    own[fk.IS_TRANSACTIONAL] = _transactional(column(records, "transactional"))
    _mark_control(own, column(records, "control"))
    return RecordTable(rows, keys, values, earlier)


def column(records: pa.RecordBatch, name: str) -> pa.Array:
    """A column with its type in `RECORDS`. Raises KohortError if there is none."""
    field = RECORDS.field(name)
    index = records.schema.get_field_index(name)
    if index < 0:
        raise KohortError(f"records of groups have no column {name!r}: {records.schema.names}")
    values = records.column(index)
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise KohortError(f"column {name!r} of records of groups: {error}") from error


def _numbers(records: pa.RecordBatch, name: str) -> Array:
    """A column of numbers; -1 for nulls."""
    values = column(records, name)
    if values.null_count == len(values):
        return np.int64(-1)
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    if values.null_count:
        values = values.fill_null(-1)
    return values.to_numpy()


def _times(times: Array) -> Array:
    """Times in µs, without those that no row can have: the log's time would stay there."""
    return np.where((times >= 0) & (times <= _LATEST_US), times, _NO_TIME_US)


def _transactional(values: pa.Array) -> Array:
    """0, 1; 2 where it is not known."""
    if values.null_count == len(values):
        return np.int64(2)
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_valid, values.fill_null(False).to_numpy(zero_copy_only=False), 2)
    return values.to_numpy(zero_copy_only=False)


def _mark_control(rows: Array, values: pa.Array) -> None:
    """Give control records their class, whatever their keys are."""
    rows[fk.MARKER] = 0
    if values.null_count == len(values):
        return
    at = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    kinds = values.take(pa.array(at)).to_pylist()
    rows[fk.MARKER, at] = [_MARKERS.get(kind, fk.OTHER_MARKER) for kind in kinds]
    rows[ck.CLASS, at] = ck.CONTROL
