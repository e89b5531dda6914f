"""Rows of tables as Python's objects: those of PyArrow, but None for times after 9999."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.history.rows import rows_of, values_of
from kohort.history.schema import GAP, TIME

VALUES = {
    pa.string(): st.text(max_size=3),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.binary(): st.binary(max_size=3),
    TIME: st.datetimes(timezones=st.just(UTC)),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=2), max_size=3),
    pa.list_(TIME): st.lists(st.datetimes(timezones=st.just(UTC)), max_size=3),
}


@settings(max_examples=examples(60))
@given(st.data())
def test_values_are_those_of_pyarrow(data):
    kind = data.draw(st.sampled_from(list(VALUES)))
    parts = data.draw(st.lists(st.lists(st.none() | VALUES[kind], max_size=6), max_size=3))
    column = pa.chunked_array([pa.array(part, kind) for part in parts], kind)
    start = data.draw(st.integers(0, len(column)))
    column = column.slice(start, data.draw(st.integers(0, len(column) - start)))
    assert values_of(column) == column.to_pylist()


def test_rows_have_the_columns_of_the_table():
    rows = [{"group": "a", "gaps": [{"hole": 4, "complete_from": None}]}, {"group": None}]
    schema = pa.schema([pa.field("group", pa.string()), pa.field("gaps", pa.list_(GAP))])
    table = pa.Table.from_pylist(rows, schema)
    assert rows_of(table) == table.to_pylist()
    assert rows_of(schema.empty_table()) == []


@pytest.mark.parametrize("us", [-(2**62), 2**62])
def test_a_time_outside_the_calendar_is_none(us):
    table = pa.table({"time": pa.array([us, 0]).cast(TIME)})
    assert rows_of(table) == [{"time": None}, {"time": datetime(1970, 1, 1, tzinfo=UTC)}]


def test_a_value_that_is_there_often_is_one_object():
    first, _, second = values_of(pa.array(["billing-1", "b", "billing-1"]))
    assert first is second
