"""Commits folded by machine code equal those folded record by record, wherever the log is cut."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.offset_logs import LOG_PARTITION, START_MS, Record, batch_of, logs
from history.reference_fold import Reference, Row
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.errors import KohortError
from kohort.history.coverage import Coverage
from kohort.history.fold import State, fold
from kohort.history.group_fold import GroupOptions
from kohort.history.schema import COMMITS, MINUTES, TABLES
from kohort.history.state_format import coverage_to_json, unpack

quick = settings(max_examples=examples(20))
thorough = settings(max_examples=examples(50))


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    """As Python has them, times in µs, sorted."""
    rows = []
    for batch in batches:
        batch.validate(full=True)
        columns = {
            name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        rows += pa.RecordBatch.from_pydict(columns).to_pylist()
    return sorted(rows, key=repr)


def wide(rows: list[Row], schema: pa.Schema) -> list[Row]:
    """With all columns of the schema."""
    return sorted(({name: row.get(name) for name in schema.names} for row in rows), key=repr)


class Folded:
    """All rows of a log, those that are open among them, and the state."""

    def __init__(
        self,
        parts: list[pa.RecordBatch],
        *,
        round_trips: bool = False,
        log_partition: int = LOG_PARTITION,
        options: GroupOptions | None = None,
        log_start: int | None = 0,
    ) -> None:
        self.state = State.new(log_partition, options)
        self.state.coverage.log_start = log_start
        self.batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
        for part in parts:
            self.add(part)
            if round_trips:
                self.state = State.from_arrow(self.state.to_arrow())

    def add(self, part: pa.RecordBatch) -> None:
        rows, self.state = fold(self.state, part)
        assert list(rows) == list(TABLES)
        for name, batch in rows.items():
            assert batch.schema.equals(TABLES[name])
            self.batches[name].append(batch)

    def rows(self, table: str, *, with_open: bool = True) -> list[Row]:
        open_rows = [self.state.open_rows()[table]] if with_open else []
        return rows_of(self.batches[table] + open_rows)

    def coverage(self) -> Row:
        (row,) = rows_of([self.state.coverage_row()])
        return row


def cut(log: list[Record], at: list[int]) -> list[pa.RecordBatch]:
    bounds = [0, *sorted(at), len(log)]
    whole = batch_of(log)
    return [whole.slice(start, end - start) for start, end in pairwise(bounds)]


def assert_equal(found: list[Row], expected: list[Row]) -> None:
    """Equal lists of rows; pytest's own comparison of long lists takes minutes."""
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        differing = {name: (row[name], other[name]) for name in row if row[name] != other[name]}
        assert not differing, row


def without_cause(rows: list[Row]) -> list[Row]:
    return sorted((row | {"cause": None} for row in rows), key=repr)


@thorough
@given(logs(), st.sampled_from([0, 0, 3, 20, None]))
def test_rows_equal_those_folded_record_by_record(log: list[Record], log_start: int | None) -> None:
    folded = Folded([batch_of(log)], log_start=log_start)
    expected = Reference(LOG_PARTITION, log_start).fold(log)
    commits = expected.commits + [row for some in expected.pending.values() for row in some]
    assert_equal(without_cause(folded.rows("commits")), wide(commits, COMMITS))
    assert_equal(folded.rows("minutes", with_open=False), wide(expected.minutes, MINUTES))
    open_minutes = rows_of([folded.state.open_rows()["minutes"]])
    assert_equal(open_minutes, wide(expected.open_minutes(), MINUTES))
    coverage = folded.coverage()
    assert [list(gap.values()) for gap in folded.coverage()["gaps"]] == expected.known_gaps()
    for name in ("end", "holes", "complete_from", "errors"):
        assert coverage[name] == getattr(expected, name)
    assert coverage["last_time"] == expected.log_time
    assert coverage["open_transactions"] == len(expected.pending)
    assert coverage["records"] == len(log)
    committed = {
        (row["group"], row["topic"], row["partition"]): row["committed"]
        for row in folded.state.committed().to_pylist()
    }
    assert committed == expected.committed()


@thorough
@given(logs(), st.sampled_from([0, 0, 3, 20, None]), st.data())
def test_rows_and_state_are_the_same_wherever_the_log_is_cut(
    log: list[Record], log_start: int | None, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=4))
    whole = Folded([batch_of(log)], log_start=log_start)
    parts = Folded(cut(log, cuts), round_trips=True, log_start=log_start)
    for name in TABLES:
        for with_open in (True, False):
            assert_equal(
                parts.rows(name, with_open=with_open), whole.rows(name, with_open=with_open)
            )
    found, expected = (unpack(each.state.to_arrow()) for each in (parts, whole))
    assert not {name for name, data in expected.items() if found[name] != data}
    assert parts.coverage() == whole.coverage()


@quick
@given(logs(), st.data())
def test_records_that_were_folded_are_left_out(log: list[Record], data: st.DataObject) -> None:
    start, again = sorted(data.draw(st.tuples(*[st.integers(0, len(log))] * 2)))
    whole = Folded([batch_of(log)])
    twice = Folded([batch_of(log[:again]), batch_of(log[start:])])
    assert_equal(twice.rows("commits"), whole.rows("commits"))
    doubled = Folded([batch_of([each for record in log for each in (record, record)])])
    assert doubled.state.to_arrow() == whole.state.to_arrow()


@quick
@given(logs(), st.data())
def test_a_damaged_state_is_refused(log: list[Record], data: st.DataObject) -> None:
    good = Folded([batch_of(log)]).state.to_arrow()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    for bad in (good[:at], flipped):
        with pytest.raises(KohortError, match="state of a history"):
            State.from_arrow(bad)


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = State.new(1).to_arrow()
    monkeypatch.setattr("kohort.history.state_format.VERSION", 7)
    with pytest.raises(KohortError, match="has version 2, this program reads version 7"):
        State.from_arrow(data)


def test_a_state_with_other_fields_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a version that did not count its changes."""

    def without_gaps(coverage: Coverage) -> dict[str, Any]:
        values = coverage_to_json(coverage)
        del values["compaction_gaps"]
        return values

    monkeypatch.setattr("kohort.history.state_format.coverage_to_json", without_gaps)
    data = State.new(1).to_arrow()
    with pytest.raises(KohortError, match="build the history into another directory"):
        State.from_arrow(data)


def test_a_tombstone_whose_key_is_damaged_ends_no_group() -> None:
    commit = encode(
        OffsetCommitRecord(OffsetCommitKey("ab", "t", 0), OffsetCommitValue(1, -1, "", START_MS))
    )
    cut_short = b"\0\2\0\5ab", None
    log = [
        {"partition": LOG_PARTITION, "offset": at, "timestamp": 0, "key": key, "value": value}
        for at, (key, value) in enumerate((commit, cut_short, commit))
    ]
    assert [row["life"] for row in Folded([batch_of(log)]).rows("commits")] == [0, 0]


def test_records_of_another_log_partition_are_refused() -> None:
    log: list[dict[str, Any]] = [{"partition": 4, "offset": 0, "timestamp": 0, "key": b""}]
    with pytest.raises(KohortError, match="other log partitions than 3: \\[4\\]"):
        fold(State.new(LOG_PARTITION), batch_of(log))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(KohortError, match="no column 'control'"):
        fold(State.new(LOG_PARTITION), batch_of([]).drop_columns(["control"]))
