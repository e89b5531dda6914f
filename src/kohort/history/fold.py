"""The fold of one log partition of `__consumer_offsets` into the rows of all tables.

    state = State.new(log_partition=7)
    rows, state = fold(state, records)     # `records`: `schema.RECORDS`, in offset order
    data = state.to_arrow()                # and later State.from_arrow(data)

Wherever the log is cut, the rows and the state are the same; only the order of rows may differ.
Commits are folded by machine code, a run at a time, up to the next record of another type. That one
is applied by `GroupFold`, which then knows all commits before it.
"""

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.call import Call
from kohort.history.record_table import read_records
from kohort.history.schema import TABLES
from kohort.history.state import State

__all__ = ["Rows", "State", "fold"]

Rows: TypeAlias = Mapping[str, pa.RecordBatch]
"""Rows by table, for each table of `schema.TABLES`."""
_NOTHING: Rows = {name: pa.RecordBatch.from_pylist([], schema) for name, schema in TABLES.items()}


def fold(state: State, records: pa.RecordBatch) -> tuple[Rows, State]:
    """Fold records of `schema.RECORDS`; those that the state has seen are left out.

    The state is consumed: use the one that is returned. Never raises for what keys and values
    contain. Raises KohortError if columns are missing, or records are of another log partition.
    """
    table = read_records(state.pending, state.unseen(records))
    if table.rows.shape[1] == table.first:
        return _NOTHING, state
    call = Call(state, table)
    call.run()
    return {**_NOTHING, **call.rows()}, state.pruned()
