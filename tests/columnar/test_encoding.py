"""Records from Arrow columns: what `protocol.records` and `client.partitioner` do row by row is the
judge.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.client.produce.partitioner import murmur2_partitioner
from kohort.columnar.encoding import Rows, encode, partitions_of
from kohort.columnar.schema import HEADERS
from kohort.errors import KafkaError
from kohort.protocol import records
from kohort.protocol.records import Record

quick = settings(max_examples=examples(80))
NOW = 1_700_000_000_000
LARGE = 1 << 20
contents = st.one_of(
    st.none(), st.binary(max_size=40), st.integers(60, 9_000).map(lambda size: b"x" * size)
)
headers = st.none() | st.lists(
    st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3
)
times = st.none() | st.integers(NOW - 10_000, NOW + 10_000) | st.integers(-1, 2**40)
found_rows = st.lists(st.tuples(contents, contents, headers, times), max_size=30)


def record_batch(found):
    lists = [
        None if some is None else [{"key": k, "value": v} for k, v in some]
        for _, _, some, _ in found
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in found], pa.binary()),
            pa.array([row[1] for row in found], pa.binary()),
            pa.array(lists, HEADERS),
            pa.array(
                [None if row[3] is None else row[3] * 1000 for row in found],
                pa.timestamp("us", tz="UTC"),
            ),
        ],
        ["key", "value", "headers", "timestamp"],
    )


def record(row):
    key, value, some, time = row
    return Record(key, value, tuple(some or ()), NOW if time is None else time)


def decoded(batch):
    return list(records.decode(bytes(batch.records), 0, batch.count, 0, batch.base_timestamp))


@quick
@given(found_rows, st.integers(1, 7), st.integers(20, 5_000), st.integers(0, 3))
def test_every_row_is_encoded_once_in_order_where_java_puts_it(found, count, batch_size, skipped):
    rows = Rows.of(record_batch(found).slice(skipped), NOW)
    chosen = partitions_of(rows, count, None, filled=count - 1, stay_bytes=LARGE)
    got, expected = {}, {}
    for batch in encode(rows, chosen, batch_size=batch_size, max_size=LARGE):
        content = decoded(batch)
        assert [each.offset for each in content] == list(range(batch.count))
        assert batch.max_timestamp == max(each.timestamp for each in content)
        assert len(batch.records) <= batch_size or batch.count == 1
        got.setdefault(batch.partition, []).extend(each._replace(offset=-1) for each in content)
    for row in found[skipped:]:
        by_key = murmur2_partitioner("t", row[0], count)
        expected.setdefault(count - 1 if by_key is None else by_key, []).append(record(row))
    assert got == expected


@quick
@given(found_rows.filter(bool))
def test_the_bytes_are_those_of_the_other_encoder(found):
    rows = Rows.of(record_batch(found), NOW)
    (batch,) = encode(rows, np.zeros(len(found), np.int32), batch_size=LARGE, max_size=LARGE)
    expected = [
        records.encode(record(row), at, batch.base_timestamp) for at, row in enumerate(found)
    ]
    assert batch.records == b"".join(expected)


def test_the_partitions_take_turns():
    rows = Rows.of(pa.RecordBatch.from_pydict({"value": [bytes(50)] * 8}), NOW)
    chosen = np.array([0, 0, 0, 0, 1, 1, 2, 1], np.int32)
    found = [each.partition for each in encode(rows, chosen, batch_size=60, max_size=100)]
    assert found == [0, 1, 2, 0, 1, 0, 1, 0]


class TestPartitions:
    def test_a_given_partition_comes_before_the_keys(self):
        rows = Rows.of(pa.RecordBatch.from_pydict({"key": [b"k"] * 3, "value": [b"v"] * 3}), NOW)
        by_key = murmur2_partitioner("t", b"k", 8)
        chosen = partitions_of(rows, 8, pa.array([5, None, 2], pa.int32()), filled=0, stay_bytes=1)
        assert chosen.tolist() == [5, by_key, 2]

    def test_without_keys_one_is_filled_and_then_the_next(self):
        rows = Rows.of(pa.RecordBatch.from_pydict({"value": ["ä" * 5] * 5}), NOW)
        assert partitions_of(rows, 3, None, filled=2, stay_bytes=20).tolist() == [2, 2, 0, 0, 1]


def test_text_is_taken_as_its_bytes():
    rows = Rows.of(
        pa.RecordBatch.from_pydict({"key": pa.array(["ö"], pa.large_string()), "value": ["ä"]}), NOW
    )
    (batch,) = encode(rows, np.zeros(1, np.int32), batch_size=100, max_size=100)
    assert [(each.key, each.value) for each in decoded(batch)] == [("ö".encode(), "ä".encode())]


@pytest.mark.parametrize("batch_size", [100, 1000])
def test_a_record_that_brokers_would_refuse_is_refused_with_its_size(batch_size):
    rows = Rows.of(pa.RecordBatch.from_pydict({"value": [b"x" * 200]}), NOW)
    with pytest.raises(
        KafkaError, match=(r"a record for partition 0 takes 2\d\d bytes, and 150 are allowed")
    ):
        list(encode(rows, np.zeros(1, np.int32), batch_size=batch_size, max_size=150))


def test_a_header_needs_a_key():
    lists = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(KafkaError, match="a header has no key"):
        Rows.of(pa.RecordBatch.from_arrays([pa.array([b"v"]), lists], ["value", "headers"]), NOW)
