"""One call of the fold: runs of commits by machine code, other records one by one."""

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.columnar.commit_fold_kernels import fold_commits
from kohort.columnar.compiling import BoundKernel
from kohort.history.arrow_columns import batch, constant, joined, numbers
from kohort.history.commit_rows import CommitRows, position_columns
from kohort.history.group_writes import GENERATIONS
from kohort.history.interface import LogPosition
from kohort.history.record_table import Pending, RecordTable, scratch
from kohort.history.schema import GROUPS, TABLES
from kohort.history.state import State
from kohort.history.tombstones import Tombstone

Array: TypeAlias = Any

_US: Final = 1000
_MARKER_KINDS: Final = (None, "commit", "abort", "other")


class Call:
    """Folds the records of `table` into a state, which it changes."""

    def __init__(self, state: State, table: RecordTable) -> None:
        self._state = state
        self._table = table
        partitions = state.partitions
        registers = partitions.registers
        self._first_ids = partitions.find(table)
        self._next_id = 0
        self._bound: BoundKernel | None = None
        self._arrays: tuple[Array, Array] = partitions.slots, partitions.groups
        state.coverage.add(table)
        self._log_times = _log_times(table, int(registers[fk.LOG_TIME]))
        state.silence.look_ahead(int(registers[fk.LOG_TIME]), self._log_times)
        self._heads = _link_producers(table.rows)
        columns = table.rows.shape[1]
        self._links: Array = np.empty(columns, np.int64)
        self._out = scratch.table("out", fk.OUT_LINES, columns)
        open_minutes = int(registers[fk.OPEN_MINUTES])
        self._minutes = scratch.table("minutes", fk.MINUTES_LINES, columns + open_minutes)
        registers[[fk.OUT, fk.MINUTES_OUT, fk.TOMBSTONES]] = 0

    def run(self) -> None:
        """Fold all records."""
        first, end = self._table.first, self._table.rows.shape[1]
        self._kernel(0, first)
        at = first
        for row in (
            first + np.flatnonzero(self._table.rows[ck.CLASS, first:] == ck.OTHER)
        ).tolist():
            if row > at:
                self._commits(at, row)
            self._apply(row)
            at = row + 1
        if at < end:
            self._commits(at, end)

    def _kernel(self, start: int, stop: int) -> None:
        partitions = self._state.partitions
        arrays = partitions.slots, partitions.groups
        if self._bound is None or any(
            a is not b for a, b in zip(arrays, self._arrays, strict=True)
        ):
            self._arrays = arrays
            self._bound = fold_commits.bind(
                0, 0, 0, self._table.rows, *arrays, self._heads, self._links, self._out,
                self._minutes, partitions.registers,
            )  # fmt: skip
        self._bound(self._table.first, start, stop)

    def _commits(self, start: int, stop: int) -> None:
        """Fold records that are commits or markers."""
        state, registers = self._state, self._state.partitions.registers
        state.end_write()
        before = int(registers[fk.OUT])
        registers[fk.TOMBSTONES] = 0
        for row in self._first_ids[self._next_id :].tolist():
            if row >= stop:
                break
            self._next_id += 1
            partitions = state.partitions
            topic_id = partitions.topic_ids.values[int(self._table.rows[fk.TOPIC_ID, row])]
            topic = int(partitions.slots[self._table.rows[fk.SLOT, row], fk.TOPIC])
            if state.groups.awaits_name(topic_id):  # by this name it has owners from this commit on
                self._kernel(start, row)
                start = row
            state.groups.name_topic(topic_id, partitions.topics.values[topic])
        self._kernel(start, stop)
        state.silence.advance(stop - 1)
        if registers[fk.TOMBSTONES]:
            self._note_tombstones(before, int(registers[fk.OUT]))

    def _apply(self, row: int) -> None:
        """Apply a record that is neither."""
        self._kernel(row, row + 1)
        state, table = self._state, self._table
        state.silence.advance(row)
        record = state.groups.apply(table.key(row), table.value(row), self._position(row))
        if record.group is None:
            return
        state.changed_groups.add(record.group)
        if record.is_tombstone and record.kind in GENERATIONS:
            state.end_life(record.group)
            log_time = int(self._log_times[row])
            (batch_,) = self._batches(np.array([row])).tolist()
            state.tombstones.delete_group(record.group, batch_, log_time)

    def _position(self, row: int) -> LogPosition:
        rows = self._table.rows
        offset, time, *others = rows[fk.LOG_OFFSET : fk.PRODUCER_EPOCH + 1, row].tolist()
        leader_epoch, batch_offset, producer_id, producer_epoch = (
            None if number < 0 else number for number in others
        )
        return LogPosition(
            offset, time // _US, leader_epoch, batch_offset, producer_id, producer_epoch,
            self._state.coverage.exact_since(offset),
            offset >= self._state.coverage.first_loss,
        )  # fmt: skip

    def _batches(self, rows: Array) -> Array:
        """`LogPosition.batch` of these records."""
        offsets = self._table.rows[fk.BATCH_OFFSET, rows]
        return np.where(offsets >= 0, offsets, -1 - self._table.rows[fk.TIME, rows] // _US)

    # --- tombstones

    def _note_tombstones(self, start: int, stop: int) -> None:
        """Note those among the rows from `start` to `stop` of what the kernel wrote."""
        state, partitions, table = self._state, self._state.partitions, self._table
        found = start + np.flatnonzero(self._out[fk.OUT_KIND, start:stop] == fk.TOMBSTONED)
        out: Array = self._out[:, found]
        rows, groups = out[fk.OUT_ROW], out[fk.OUT_GROUP]
        owners = partitions.slots[table.rows[fk.SLOT, rows], fk.OWNER_OF]
        topics = map(partitions.topics.values.__getitem__, out[fk.OUT_TOPIC].tolist())
        is_readable = out[fk.OUT_HAS_UNREADABLE] == 0
        tombstones = list(map(
            Tombstone, out[fk.OUT_IN_FORCE].tolist(), topics, self._are_aged(out),
            (self._are_subscribed(out) | (owners >= 0)).tolist(),
            (state.coverage.are_exact(out[fk.OUT_IN_FORCE]) & is_readable).tolist(),
        ))  # fmt: skip
        batches, times = self._batches(rows), self._log_times[rows]
        # Those of a group in a batch follow one another.
        changes = (np.diff(groups) != 0) | (np.diff(batches) != 0) | (np.diff(times) != 0)
        firsts = [0, *(np.flatnonzero(changes) + 1).tolist()]
        for first, end in zip(firsts, [*firsts[1:], len(rows)], strict=True):
            state.tombstones.add(
                partitions.group_names.values[groups[first]], int(batches[first]),
                int(times[first]), tombstones[first:end],
            )  # fmt: skip

    def _are_subscribed(self, out: Array) -> Array:
        """Whether members of the group subscribe to the topic of each row."""
        partitions = self._state.partitions
        names, topics = partitions.group_names.values, partitions.topics.values
        pairs = out[fk.OUT_GROUP] * len(topics) + out[fk.OUT_TOPIC]
        pairs, places = np.unique(pairs, return_inverse=True)
        subscribed = [
            self._state.groups.subscribes(names[pair // len(topics)], topics[pair % len(topics)])
            for pair in pairs.tolist()
        ]
        return np.array(subscribed, np.bool_)[places]

    def _are_aged(self, out: Array) -> list[bool | None]:
        """Whether the offset before each row was as old as the retention.

        None: there was none, or it is not known.
        """
        state, now = self._state, out[fk.OUT_IN_FORCE_TIME] // _US
        numbers_, places = np.unique(out[fk.OUT_GROUP], return_inverse=True)
        groups = map(state.partitions.group_names.values.__getitem__, numbers_.tolist())
        empty = [fk.NONE if at is None else at for at in map(state.groups.empty_since, groups)]
        since = np.array(empty, np.int64)[places]
        since = np.where(since == fk.NONE, out[fk.OUT_PREVIOUS_COMMIT_TIME], since)
        expiry = out[fk.OUT_PREVIOUS_EXPIRE_TIME]
        are_aged = np.where(expiry >= 0, now >= expiry, now - since >= state.options.retention_ms)
        has_previous = (out[fk.OUT_HAS_PREVIOUS] != 0) & (out[fk.OUT_HAS_UNREADABLE] == 0)
        pairs = zip(are_aged.tolist(), has_previous.tolist(), strict=True)
        return [is_aged if has_one else None for is_aged, has_one in pairs]

    # --- rows

    def rows(self) -> dict[str, pa.RecordBatch]:
        """The rows of tables that have some, after `run`."""
        state, registers = self._state, self._state.partitions.registers
        made = CommitRows(state.log_partition, state.partitions)
        rows = self._group_rows()
        out = self._out[:, : registers[fk.OUT]]
        commits = made.rows(out, self._table, state.coverage)
        is_bad = commits.column("error")
        state.coverage.errors += len(is_bad) - is_bad.null_count
        rows["commits"] = self._with_causes(commits, out[fk.OUT_KIND] == fk.TOMBSTONED)
        minutes = self._minutes[:, : registers[fk.MINUTES_OUT]]
        order = np.lexsort((minutes[fk.MINUTES_OFFSET], minutes[fk.MINUTES_MINUTE]))
        rows["minutes"] = made.minutes(minutes[:, order])
        state.pending = _still_pending(self._table)
        state.free()
        return rows

    def _with_causes(self, commits: pa.RecordBatch, is_tombstone: Array) -> pa.RecordBatch:
        """The rows that are complete: those of tombstones wait for their cause."""
        tombstones = self._state.tombstones
        log_time = int(self._state.partitions.registers[fk.LOG_TIME])
        if not tombstones.is_waiting and not is_tombstone.any():
            tombstones.forget(log_time)
            return commits
        waiting = commits.filter(pa.array(is_tombstone))
        resolved = tombstones.resolve(waiting, log_time)
        return joined([commits.filter(pa.array(~is_tombstone)), resolved])

    def _group_rows(self) -> dict[str, pa.RecordBatch]:
        fold = self._state.groups
        tables: dict[str, pa.RecordBatch] = {}
        for name, some in fold.rows.items():
            if some:
                tables[name] = pa.RecordBatch.from_pylist(some, TABLES[name])
                some.clear()
        if "groups" in tables:
            errors = tables["groups"].column("error")
            self._state.coverage.errors += len(errors) - errors.null_count
        markers = self._marker_rows()
        if markers is not None:
            groups = joined([tables.get("groups", markers.slice(0, 0)), markers])
            tables["groups"] = groups.sort_by("log_offset")
        return tables

    def _marker_rows(self) -> pa.RecordBatch | None:
        at = np.flatnonzero(self._table.rows[fk.MARKER, self._table.first :])
        if not len(at):
            return None
        rows: Array = self._table.rows[:, self._table.first + at]
        kinds = pa.array([_MARKER_KINDS[kind] for kind in rows[fk.MARKER].tolist()], pa.string())
        other = GROUPS.field("other").type
        columns = position_columns(self._state.log_partition, rows) | {
            "in_force": numbers(rows[fk.LOG_OFFSET]),
            "type": constant("marker", pa.string(), len(at)),
            "other": pa.StructArray.from_arrays(
                [kinds, pa.nulls(len(at), pa.string())], fields=list(other)
            ),
        }
        return batch(columns, GROUPS, len(at))


def _log_times(table: RecordTable, before: int) -> Array:
    """The running maximum of record time at each record; `before`: before the first one."""
    times = np.maximum.accumulate(table.rows[fk.TIME, table.first :])
    return np.concatenate([np.full(table.first, before), np.maximum(times, before)])


def _link_producers(rows: Array) -> Array:
    """Number the producers of open transactions and markers; none has a record yet."""
    is_commit = (rows[ck.CLASS] == ck.COMMIT) & (rows[fk.IS_TRANSACTIONAL] == 1)
    named = rows[fk.PRODUCER_ID] >= 0
    at = np.flatnonzero((is_commit | (rows[ck.CLASS] == ck.CONTROL)) & named)
    producers, numbers_of = np.unique(rows[fk.PRODUCER_ID, at], return_inverse=True)
    rows[fk.PRODUCER] = -1
    rows[fk.PRODUCER, at] = numbers_of
    return np.full(len(producers), -1, np.int64)


def _still_pending(table: RecordTable) -> Pending:
    """The records of transactions that are open after the call."""
    at = np.flatnonzero(table.rows[fk.IS_PENDING])
    if not len(at):
        return Pending.none()
    rows: Array = np.ascontiguousarray(table.rows[:, at])
    return Pending.of(rows, table.metadata(rows))
