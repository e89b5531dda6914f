"""The fold of one log partition of `__consumer_offsets` into the rows of all tables.

    state = State.new(log_partition=7)
    rows, state = fold(state, records)     # `records`: `schema.RECORDS`, in offset order
    data = state.to_arrow()                # and later State.from_arrow(data)

Wherever the log is cut, the rows and the state are the same; only the order of rows may differ.
Commits are folded by machine code, a run at a time, up to the next record of another type. That one
is applied by `GroupFold`, which then knows all commits before it.
"""

from collections.abc import Iterator, Mapping
from math import isqrt
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.call import Call
from kohort.history.last_record import last_record
from kohort.history.record_table import Strings, column, read_records
from kohort.history.schema import TABLES
from kohort.history.state import State

__all__ = ["Rows", "State", "fold", "fold_parts"]

Rows: TypeAlias = Mapping[str, pa.RecordBatch]
"""Rows by table, for each table of `schema.TABLES`."""
MOST_NAMED: Final = 5_000_000
"""Members that the rows of a part name at most, about: each generation names all of its group."""
_NOTHING: Rows = {name: pa.RecordBatch.from_pylist([], schema) for name, schema in TABLES.items()}


def fold(state: State, records: pa.RecordBatch) -> tuple[Rows, State]:
    """Fold records of `schema.RECORDS`; those that the state has seen are left out.

    The state is consumed: use the one that is returned. Never raises for what keys and values
    contain. Raises KohortError if columns are missing, or records are of another log partition.
    """
    unseen = state.unseen(records)
    table = read_records(state.pending, unseen)
    if table.rows.shape[1] == table.first:
        return _NOTHING, state
    call = Call(state, table)
    call.run()
    state.coverage.last_record = last_record(unseen)
    return {**_NOTHING, **call.rows()}, state.pruned()


def fold_parts(state: State, records: pa.RecordBatch) -> Iterator[tuple[Rows, State]]:
    """`fold`, some records at a time: memory is bounded whatever number of members groups have."""
    others = _others(Strings.of(column(records, "key")))
    at = 0
    while at < records.num_rows:
        coming = others[np.searchsorted(others, at) :]
        count = _records_per_part(state.groups.most_members()) if len(coming) else 0
        end = int(coming[count]) if count < len(coming) else records.num_rows
        rows, state = fold(state, records.slice(at, end - at))
        yield rows, state
        at = end


def _records_per_part(members: int) -> int:
    """How many records of groups name at most MOST_NAMED members, if each may add one."""
    return max((isqrt(members * members + 4 * MOST_NAMED) - members) // 2, 1)


def _others(keys: Strings) -> Any:
    """The records whose key is not that of a committed offset."""
    starts, sizes = keys.ends[:-1], np.diff(keys.ends)
    typed = np.flatnonzero(sizes >= 2)  # bytes of a type
    at = starts[typed]
    is_offset = (keys.data[at] == 0) & (keys.data[at + 1] <= 1)
    is_other = np.ones(len(sizes), np.bool_)
    is_other[typed[is_offset]] = False
    return np.flatnonzero(is_other)
