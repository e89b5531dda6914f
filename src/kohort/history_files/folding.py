"""The work of a task: reads ranges of log partitions, folds them, writes rows and states."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.errors import KohortError
from kohort.history.damage import lose_before, split_damage
from kohort.history.schema import RECORDS
from kohort.history_files.directory import STATES
from kohort.history_files.file_system import Files
from kohort.history_files.snapshot import StoredFile, StoredState, file_from_json, file_to_json
from kohort.history_files.table_files import TableFiles

if TYPE_CHECKING:
    from kohort.history.group_fold import GroupOptions
    from kohort.history.state import State

_NAME_BYTES: Final = 6
_NO_NAMES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class LogRange:
    """Records of one log partition with offsets in [start, end), to be folded into `state`."""

    log_partition: int
    start: int
    end: int
    state: str | None
    """File of the state at `start`; None: no record was read yet."""
    after_pause: bool = False
    """Whether the log may have been compacted since the state was written."""
    log_start: int | None = 0
    """First offset that the log has now; None: it is unknown, as of an archive."""

    @property
    def size(self) -> int:
        return self.end - self.start


Reader: TypeAlias = Callable[[LogRange], Iterable[pa.RecordBatch]]
"""Reads the records of a range in ascending offsets."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task wrote. Its files and their names are durable."""

    files: tuple[StoredFile, ...]
    states: Mapping[int, StoredState]
    warnings: tuple[str, ...] = ()
    """Logs that were cut back since they were read."""

    def to_json(self) -> str:
        states = {str(number): state.to_json() for number, state in self.states.items()}
        files = list(map(file_to_json, self.files))
        return json.dumps({"files": files, "states": states, "warnings": self.warnings})

    @classmethod
    def from_json(cls, text: str) -> "TaskResult":
        values = json.loads(text)
        return cls(
            tuple(map(file_from_json, values["files"])),
            {
                int(number): StoredState.from_json(state)
                for number, state in values["states"].items()
            },
            tuple(values["warnings"]),
        )


def fold_ranges(
    files: Files,
    ranges: Sequence[LogRange],
    read: Reader,
    options: "GroupOptions | None" = None,
    topic_names: Mapping[str, str] = _NO_NAMES,
) -> TaskResult:
    """Fold `ranges`, one after the other, into files that no other attempt has.

    `options` are those of log partitions of which nothing has been read. `topic_names`: topic id →
    name, for topics that no record names.
    """
    tables = TableFiles(files, _name(ranges), secrets.token_hex(_NAME_BYTES))
    states: dict[int, StoredState] = {}
    warnings: list[str] = []
    try:
        for each in ranges:
            state = _state(files, each, options, topic_names)
            warning = _replacement(each, read, state) if each.after_pause else None
            if warning is not None:
                tables.write("groups", lose_before(state, each.start, warning))
                warnings.append(warning)
            states[each.log_partition] = _fold_range(
                files, tables, each, read, state, is_changed=warning is not None
            )
        return TaskResult(tuple(tables.close()), states, tuple(warnings))
    except BaseException:
        tables.abandon()
        raise


def _replacement(log_range: LogRange, read: Reader, state: "State") -> str | None:
    """Why the log is not the one that was read up to the range, after a pause; None: it is."""
    first, last = log_range.log_start, state.coverage.last_record
    if first is None or last is None or last.offset < first:
        return None
    again = replace(log_range, start=last.offset, end=last.offset + 1)
    try:
        is_other = any(last.is_other_than(records_of(records)) for records in read(again))
    except KohortError:  # reading on says what is wrong
        return None
    if not is_other:
        return None
    return (
        f"log partition {log_range.log_partition} has another record at offset {last.offset} than "
        "when it was read: its log was cut back, as by an unclean leader election, and has grown "
        f"again; its records before offset {log_range.start} are not read"
    )


def _fold_range(
    files: Files,
    tables: TableFiles,
    log_range: LogRange,
    read: Reader,
    before: "State",
    *,
    is_changed: bool,
) -> StoredState:
    """Write the rows of a range, and the state at its end.

    `before` is the one at its start, and not that of the range any more if `is_changed`.
    """
    state, has_records = _fold(tables, log_range, before, read)
    if not has_records and not is_changed:
        return StoredState.of(log_range.end, log_range.state, state)
    directory = f"{STATES}/{log_range.log_partition}"
    path = f"{directory}/{log_range.end}-{tables.attempt}.arrow"
    files.make_directory(directory)
    with files.create(path) as file:
        file.write(state.to_arrow())
    files.sync_directories([directory])
    return StoredState.of(log_range.end, path, state)


def _name(ranges: Sequence[LogRange]) -> str:
    """The beginning of the names of a task's files, by log partition and offsets."""
    first, last = ranges[0], ranges[-1]
    if len(ranges) == 1:
        return f"{first.log_partition}-{first.start}-{first.end}"
    return f"{first.log_partition}-{last.log_partition}x{len(ranges)}"


def _state(
    files: Files,
    log_range: LogRange,
    options: "GroupOptions | None",
    topic_names: Mapping[str, str],
) -> "State":
    from kohort.history.state import State

    if log_range.state is None:
        state = State.new(log_range.log_partition, options)
    else:
        state = State.from_arrow(files.read(log_range.state))
        if log_range.after_pause:
            state.coverage.after_pause = True
    state.coverage.log_start = log_range.log_start
    if topic_names:
        state.groups.name_topics(topic_names)
    return state


def _fold(
    tables: TableFiles, log_range: LogRange, state: "State", read: Reader
) -> tuple["State", bool]:
    from kohort.history.fold import fold_parts

    is_changed = False
    for records in read(log_range):
        if not records.num_rows:
            continue
        whole, errors = split_damage(state, records_of(records))
        is_changed = True
        if errors is not None:
            tables.write("groups", errors)
        if not whole.num_rows:
            continue
        for rows, after in fold_parts(state, whole):
            state = after
            for table, batch in rows.items():
                tables.write(table, batch)
    return state, is_changed


def records_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of `RECORDS` of a batch that has them, and perhaps others.

    Those of `includeBatchFields` may be missing, as in archives: they are null then.
    """
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in RECORDS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each run of rows of one log partition, with its number."""
    partitions: Any = batch.column("partition").to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist()] if batch.num_rows else []
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=False):
        yield int(partitions[start]), batch.slice(start, end - start)
