"""The walk over lengths compared with the walk over headers."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.log.scan import whole_batches
from kohort.protocol import batches
from kohort.protocol.batches import Record


@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(0, 2_000), st.integers(0, 7))
def test_whole_batches_ends_where_iterate_does(values, limit, skipped):
    encoded = [batches.build([Record(None, value)]) for value in values]
    data = b"".join(encoded)
    start = sum(map(len, encoded[:skipped]))
    found = list(batches.iterate(memoryview(data)[:limit], start))
    last, header = found[-1] if found else (start, None)
    expected = (last, last + header.size if header else 0)
    assert whole_batches(data, start, limit) == expected


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 60))
def test_whole_batches_ends_before_a_batch_that_is_cut(values, missing):
    data = b"".join(batches.build([Record(None, value)]) for value in values)[:-missing]
    found = list(batches.iterate(data))
    end = found[-1][0] + found[-1][1].size if found else 0
    assert whole_batches(data, 0, len(data))[1] == end
