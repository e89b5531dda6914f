"""Damaged ranges of files become rows with an error, and a hole for the fold."""

import pyarrow as pa
import pytest

from history.recorded import load
from kohort.history.damage import split_damage
from kohort.history.fold import fold
from kohort.history.state import State
from kohort.history_files.certainty import is_in_gap

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


@pytest.mark.parametrize("damaged_at", [0, 20, 49])
def test_behind_damage_nothing_is_exact(damaged_at):
    """Compaction keeps the last record of each key. Damage may have taken it."""
    state = State.new(NUMBER)
    whole, _ = split_damage(state, records(damaged_at))
    rows, state = fold(state, whole)
    state = State.from_arrow(state.to_arrow())
    certainties = {
        row["certainty"]
        for row in rows["commits"].to_pylist()
        if row["in_force"] is not None and row["in_force"] > damaged_at
    }
    assert certainties <= {"unknown"}
    assert state.coverage.exact_since(damaged_at + 1) is None
    assert not any(row["complete"] for row in state.open_rows()["generations"].to_pylist())
    (coverage,) = state.coverage_row().to_pylist()
    assert coverage["complete_from"] is None
    last = {"hole": damaged_at, "complete_from": None, "is_later": True, "is_data_loss": True}
    assert last in coverage["gaps"]
    assert is_in_gap(state.coverage.gaps, 2**63 - 1)


def test_before_damage_all_is_exact():
    state = State.new(NUMBER)
    whole, _ = split_damage(state, records(damaged_at=20))
    rows, state = fold(state, whole)
    before = [row for row in rows["commits"].to_pylist() if row["log_offset"] < 20]
    assert {row["certainty"] for row in before if row["in_force"] is not None} <= {"exact"}
    assert state.coverage.exact_since(19) == 0
