"""Damaged ranges of files become rows with an error, and a hole for the fold."""

import pyarrow as pa

from history.recorded import load
from kohort.history.damage import split_damage
from kohort.history.fold import fold
from kohort.history.state import State

NUMBER = 1


def records(damaged_at=None):
    table = load("classic").records("whole", NUMBER).slice(0, 50)
    rows = table.to_pylist()
    if damaged_at is not None:
        rows[damaged_at] |= {"key": None, "value": b"lost: CRC", "control": "damaged"}
    return pa.RecordBatch.from_pylist(rows, schema=table.schema)


def test_records_without_damage_are_all_folded():
    state = State.new(NUMBER)
    whole, errors = split_damage(state, records())
    assert errors is None
    assert whole.num_rows == 50
    assert state.coverage_row().to_pylist()[0]["errors"] == 0


def test_a_damaged_range_is_one_row_and_a_hole():
    state = State.new(NUMBER)
    whole, errors = split_damage(state, records(damaged_at=0))
    assert errors is not None
    (row,) = errors.to_pylist()
    assert (row["log_offset"], row["error"]) == (0, "lost: CRC")
    assert row["other"]["kind"] == "damaged"
    assert row["in_force"] is None
    fold(state, whole)
    (coverage,) = state.coverage_row().to_pylist()
    assert (coverage["errors"], coverage["records"]) == (1, 49)
    assert (coverage["first_hole"], coverage["holes"]) == (1, 1)
