"""Rows of `commits` and `minutes`, column by column, from what the kernels wrote."""

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.coordinator.records import decode
from kohort.coordinator_common import CorruptRecordError
from kohort.history.arrow_columns import batch, choice, constant, numbers, strings, text_array
from kohort.history.coverage import Coverage
from kohort.history.partitions import Names, Partitions
from kohort.history.record_table import Pending, RecordTable, Strings
from kohort.history.schema import COMMITS, COMMITTED, LATEST_MS, MINUTES, TIME

Array: TypeAlias = Any
Columns: TypeAlias = dict[str, pa.Array]

_KINDS: Final = text_array(
    [None, "first", "advance", "repeat", "rewind", "superseded", "tombstone"]
)
_ORIGINS: Final = text_array([None, "member", "outside", "transaction"])
_TXNS: Final = text_array([None, "committed", "aborted", "open", "assumed"])
_COMMITTED, _ABORTED, _OPEN, _ASSUMED = range(1, 5)
_CERTAINTIES: Final = text_array([None, "exact", "unknown"])


class CommitRows:
    """Makes rows of one log partition."""

    def __init__(self, log_partition: int, partitions: Partitions) -> None:
        self._log_partition = log_partition
        self._partitions = partitions

    def rows(self, out: Array, table: RecordTable, coverage: Coverage) -> pa.RecordBatch:
        """Rows of `commits` from what `fold_commits` wrote."""
        records = _Lines(table.rows, out[fk.OUT_ROW])
        columns = self._record_columns(records, table, out[fk.OUT_ROW])
        kinds = out[fk.OUT_KIND]
        counts = kinds != fk.NOTHING
        previous, has_previous = out[fk.OUT_PREVIOUS].copy(), out[fk.OUT_HAS_PREVIOUS] != 0
        positions = out[fk.OUT_IN_FORCE]
        is_exact = coverage.are_exact(positions)
        is_exact &= coverage.are_last(out[fk.OUT_PREVIOUS_RECORD], positions)
        # Without a record before, data loss may have taken it.
        is_exact &= has_previous | (kinds == fk.SUPERSEDED) | (positions < coverage.first_loss)
        is_exact &= out[fk.OUT_HAS_UNREADABLE] == 0
        certainties = np.where(is_exact, 1, 2)
        columns |= {
            "txn": choice(_transactions(records, counts), _TXNS),
            "in_force": numbers(out[fk.OUT_IN_FORCE].copy(), counts),
            "group": _named(out[fk.OUT_GROUP], self._partitions.group_names),
            "topic": _named(out[fk.OUT_TOPIC], self._partitions.topics),
            "in_force_time": _known(out[fk.OUT_IN_FORCE_TIME].copy(), counts),
            "previous": numbers(previous, has_previous),
            "previous_time": _known(out[fk.OUT_PREVIOUS_TIME].copy(), has_previous),
            "advance": numbers(
                _advances(records[ck.COMMITTED], previous),
                (kinds >= fk.ADVANCE) & (kinds <= fk.REWIND),
            ),
            "kind": choice(kinds, _KINDS),
            "certainty": choice(np.where(counts, certainties, 0), _CERTAINTIES),
        }
        return batch(columns, COMMITS, len(kinds))

    def _record_columns(self, records: "_Lines", table: RecordTable, at: Array) -> Columns:
        """Columns that the record itself decides; `at`: where it is in the table."""
        classes = records[ck.CLASS]
        is_commit, has_key = classes == ck.COMMIT, classes != ck.BAD_KEY
        columns = position_columns(self._log_partition, records) | {
            "type": constant("offset", pa.string(), len(classes)),
            "version": numbers(records[ck.VERSION], is_commit, pa.int16()),
            "life": unless_negative(records[fk.LIFE]),
            "partition": numbers(records[ck.PARTITION], has_key, pa.int32()),
            "topic_id": _named(records[fk.TOPIC_ID], self._partitions.topic_ids),
            "committed": numbers(records[ck.COMMITTED], is_commit),
            "leader_epoch": unless_negative(records[ck.LEADER_EPOCH], pa.int32()),
            "metadata": strings(table.metadata(records), records[ck.METADATA_SIZE], is_commit),
            "commit_time": _times(records[ck.COMMIT_TIME]),
            "expire_time": _times(records[ck.EXPIRE_TIME]),
            "origin": choice(records[fk.ORIGIN], _ORIGINS),
        }
        columns |= self._owner_columns(records[fk.OWNER])
        is_bad = (classes == ck.BAD_KEY) | (classes == ck.BAD_VALUE)
        if is_bad.any():
            columns |= _errors(table, at, is_bad)
        return columns

    def _owner_columns(self, owners: Array) -> Columns:
        if not len(owners) or owners.max() < 0:
            return {}
        columns = self._partitions.owner_columns()
        return {name: choice(owners, column) for name, column in columns.items()}

    def open_rows(self, pending: Pending, coverage: Coverage) -> pa.RecordBatch:
        """Rows of records of open transactions."""
        out: Array = np.zeros((fk.OUT_LINES, pending.size), np.int64)
        slots = self._partitions.slots[pending.rows[fk.SLOT]]
        out[fk.OUT_ROW] = np.arange(pending.size)
        out[fk.OUT_PREVIOUS_RECORD] = -1
        out[fk.OUT_GROUP], out[fk.OUT_TOPIC] = slots[:, fk.GROUP], slots[:, fk.TOPIC]
        nothing = Strings.of(pa.array([], pa.binary()))
        return self.rows(out, RecordTable(pending.rows, nothing, nothing, pending), coverage)

    def minutes(self, lines: Array) -> pa.RecordBatch:
        """Rows of `minutes`."""
        columns = {
            "log_partition": constant(self._log_partition, pa.int32(), lines.shape[1]),
            "group": _named(lines[fk.MINUTES_GROUP], self._partitions.group_names),
            "topic": _named(lines[fk.MINUTES_TOPIC], self._partitions.topics),
            "partition": numbers(lines[fk.MINUTES_PARTITION], None, pa.int32()),
            "minute": unless_negative(lines[fk.MINUTES_MINUTE] * fk.MINUTE_US, TIME),
            "log_offset": numbers(lines[fk.MINUTES_OFFSET].copy()),
            "commits": numbers(lines[fk.MINUTES_COMMITS], None, pa.int32()),
            "last": numbers(lines[fk.MINUTES_LAST].copy()),
            "sum_advance": numbers(lines[fk.MINUTES_SUM].copy()),
            "least_advance": numbers(lines[fk.MINUTES_LEAST].copy(), lines[fk.MINUTES_GAP] >= 0),
            "longest_gap_ms": unless_negative(lines[fk.MINUTES_GAP].copy()),
        }
        return batch(columns, MINUTES, lines.shape[1])

    def committed(self, lines: Array) -> pa.RecordBatch:
        """Rows of COMMITTED."""
        groups, topics, partitions, offsets, times = lines
        columns = {
            "log_partition": constant(self._log_partition, pa.int32(), lines.shape[1]),
            "group": _named(groups, self._partitions.group_names),
            "topic": _named(topics, self._partitions.topics),
            "partition": numbers(partitions, None, pa.int32()),
            "committed": numbers(offsets),
            "in_force_time": numbers(times, None, TIME),
        }
        return batch(columns, COMMITTED, lines.shape[1])


def position_columns(log_partition: int, records: "Array | _Lines") -> Columns:
    """Where records are in the log, and what their batches say; `records`: lines of the table."""
    offsets = records[fk.LOG_OFFSET]
    return {
        "log_partition": constant(log_partition, pa.int32(), len(offsets)),
        "log_offset": numbers(offsets),
        "time": unless_negative(records[fk.TIME], TIME),
        "log_leader_epoch": unless_negative(records[fk.LOG_LEADER_EPOCH], pa.int32()),
        "batch_offset": unless_negative(records[fk.BATCH_OFFSET]),
        "producer_id": unless_negative(records[fk.PRODUCER_ID]),
        "producer_epoch": unless_negative(records[fk.PRODUCER_EPOCH], pa.int16()),
    }


class _Lines:
    """Some columns of the table of records, a line at a time: a copy of each."""

    def __init__(self, rows: Array, at: Array) -> None:
        self._rows = rows
        self._at = at

    def __getitem__(self, line: int) -> Array:
        return self._rows[line].take(self._at)


def _transactions(records: _Lines, counts: Array) -> Array:
    codes = np.where(records[fk.IS_TRANSACTIONAL] == 2, _ASSUMED, 0)
    own = np.flatnonzero(records[fk.PRODUCER] >= 0)
    if len(own):
        own = own[records[ck.CLASS][own] == ck.COMMIT]
        codes[own] = np.where(counts[own], _COMMITTED, _ABORTED)
        codes[own[records[fk.IS_PENDING][own] != 0]] = _OPEN
    return codes


def _named(codes: Array, names: Names) -> pa.Array:
    return choice(codes, names.arrow)


def unless_negative(values: Array, kind: pa.DataType | None = None) -> pa.Array:
    """A column of numbers; null below 0."""
    return numbers(values, values >= 0, kind)


def _times(ms: Array) -> pa.Array:
    """Times in ms; null for those that are none."""
    return numbers(np.clip(ms, 0, LATEST_MS) * 1000, (ms >= 0) & (ms <= LATEST_MS), TIME)


def _known(times: Array, valid: Array) -> pa.Array:
    """Times in µs; null where `valid` is false, or the time is none."""
    return numbers(times, valid & (times >= 0), TIME)


def _advances(committed: Array, previous: Array) -> Array:
    """The differences, or the nearest numbers that 64 bits hold."""
    advances = committed - previous
    has_overflown = ((committed ^ previous) & (committed ^ advances)) < 0
    limits = np.where(committed < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    return np.where(has_overflown, limits, advances)


def _errors(table: RecordTable, at: Array, is_bad: Array) -> Columns:
    """The records that do not follow the schema, and why."""
    bad = np.flatnonzero(is_bad).tolist()
    values: dict[str, list[Any]] = {
        name: [None] * len(at) for name in ("error", "raw_key", "raw_value")
    }
    for row in bad:
        index = int(at[row]) - table.first
        key, value = table.keys.at(index) or b"", table.values.at(index)
        values["raw_key"][row], values["raw_value"][row] = key, value
        try:
            decode(key, value)
        except CorruptRecordError as error:
            values["error"][row] = str(error)
    return {name: pa.array(column, COMMITS.field(name).type) for name, column in values.items()}
