"""Columns of the records' batches: the headers that `protocol.batches` reads are the judge."""

import sys
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.columnar import decode, decode_batches, record_schema
from kohort.history import schema as history
from kohort.protocol import batches
from kohort.protocol.batch_format import START
from kohort.protocol.batches import CONTROL, TRANSACTIONAL, Codec, Record

NOW = 1_700_000_000_000
NAMES = ("batchOffset", "partitionLeaderEpoch", "producerId", "producerEpoch", "transactional")

producers = st.one_of(
    st.just((-1, -1)), st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
)
keys = st.one_of(st.none(), st.binary(max_size=6), st.sampled_from([b"\0\0\0\0", b"\0\0\0\1"]))
some_batches = st.lists(
    st.tuples(
        st.lists(keys, min_size=1, max_size=12),
        producers,
        st.sampled_from([0, TRANSACTIONAL, CONTROL, TRANSACTIONAL | CONTROL]),
        st.integers(-1, 2**31 - 1),
        st.sampled_from(Codec),
    ),
    max_size=6,
)


def built(described):
    data, end = b"", 3
    for batch_keys, (producer_id, producer_epoch), attributes, leader_epoch, codec in described:
        batch = batches.build(
            [Record(key, b"v", (), NOW) for key in batch_keys],
            base_offset=end,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            attributes=attributes,
        )
        data += START.pack(end, len(batch) - 12, leader_epoch) + batch[16:]
        end += len(batch_keys)
    return data, end


def control_of(header, key):
    """The name of a control record by its key."""
    if not header.is_control:
        return None
    kind = key[2:4] if key is not None else b""
    return {b"\0\0": "abort", b"\0\1": "commit"}.get(kind, "other")


def expected(data, from_offset, to_offset):
    rows = []
    for position, header in batches.iterate(data):
        has_producer = header.producer_id >= 0
        fields = (
            header.base_offset,
            header.partition_leader_epoch,
            header.producer_id if has_producer else None,
            header.producer_epoch if has_producer else None,
            header.is_transactional,
        )
        rows += [
            (record.offset, *fields, control_of(header, record.key))
            for record in batches.decode_records(data, position)
            if from_offset <= record.offset < to_offset
        ]
    return rows


@settings(max_examples=examples(120))
@given(some_batches, st.data())
def test_each_record_has_the_fields_of_its_batch(described, draw):
    data, end = built(described)
    start, to = draw.draw(st.integers(0, end)), draw.draw(st.integers(0, end + 1))
    found = decode(
        data, topic="t", partition=3, from_offset=start, to_offset=to, include_batch_fields=True
    )
    found.validate(full=True)
    columns = [found.column(name).to_pylist() for name in ("offset", *NAMES, "control")]
    assert list(zip(*columns, strict=True)) == expected(data, start, to)
    parts = decode_batches(data, topic="t", partition=3, include_batch_fields=True, max_rows=2)
    assert sum(part.num_rows for part in parts) == len(expected(data, 0, end))


@settings(max_examples=examples(60))
@given(some_batches)
def test_the_other_columns_are_those_without_batch_fields(described):
    data, _ = built([each for each in described if not each[2] & CONTROL])
    plain = decode(data, topic="t", partition=3, include_headers=True)
    wide = decode(data, topic="t", partition=3, include_headers=True, include_batch_fields=True)
    assert wide.schema.equals(record_schema(include_headers=True, include_batch_fields=True))
    assert wide.select(plain.schema.names).equals(plain)


def test_the_history_reads_these_columns():
    fields = record_schema(include_headers=False, include_batch_fields=True)
    assert [field for field in history.RECORDS if not fields.field(field.name).equals(field)] == []


@pytest.mark.parametrize("rows", [0, 5])
def test_batches_that_compaction_emptied_have_no_rows(rows):
    content = [Record(b"k", b"v", (), NOW)] * rows
    header = batches.read_header(batches.build([Record(b"k", b"v", (), NOW)], base_offset=1))
    data = batches.replace_records(header, b"", 0, NOW)
    if content:
        data += batches.build(content, base_offset=2)
    found = decode(data, topic="t", partition=0, include_batch_fields=True)
    assert found.column("batchOffset").to_pylist() == [2] * rows


def test_aborted_records_are_left_out_and_their_markers_are_not():
    data, _ = built([
        ([b"a"], (5, 0), TRANSACTIONAL, 0, Codec.NONE),
        ([b"\0\0\0\0"], (5, 0), TRANSACTIONAL | CONTROL, 0, Codec.NONE),
        ([b"b"], (5, 0), TRANSACTIONAL, 0, Codec.NONE),
    ])  # fmt: skip
    found = decode(data, topic="t", partition=0, aborted=[(5, 3)], include_batch_fields=True)
    assert found.column("control").to_pylist() == ["abort", None]


def test_no_task_imports_pandas_for_a_control_record():
    """Its import takes half a second."""
    script = """
import sys
from kohort.columnar import decode
from kohort.protocol import batches
marker = batches.Record(bytes(4), bytes(6), (), 0)
data = batches.build([marker], attributes=batches.TRANSACTIONAL | batches.CONTROL, producer_id=1)
decode(data, topic="t", partition=0, include_batch_fields=True)
assert "pandas" not in sys.modules
"""
    run([sys.executable, "-c", script], check=True)
