"""Walks over batches, compared with the walk over headers in memory."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.log import scan
from kohort.log.scan import whole_batches
from kohort.log.stores import MemoryStore
from kohort.protocol import batches
from kohort.protocol.batch_format import SIZE_OVERHEAD, START
from kohort.protocol.batches import Record


@given(
    st.lists(st.one_of(st.binary(max_size=200), st.just(bytes(9_000))), max_size=8),
    st.integers(0, 30_000),
    st.integers(0, 7),
)
def test_whole_batches_ends_where_iterate_does(values, limit, skipped):
    encoded = [at_offset(offset, value) for offset, value in enumerate(values)]
    data = b"".join(encoded)
    start = sum(map(len, encoded[:skipped]))
    found = list(batches.iterate(memoryview(data)[:limit], start))
    ends = [(at + header.size, header.last_offset + 1) for at, header in found]
    expected = ends[-1] if ends else None
    assert whole_batches(MemoryStore(bytearray(data)), start, limit) == expected


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 60))
def test_whole_batches_ends_before_a_batch_that_is_cut(values, missing):
    data = b"".join(batches.build([Record(None, value)]) for value in values)[:-missing]
    found = list(batches.iterate(data))
    end = (found[-1][0] + found[-1][1].size, found[-1][1].last_offset + 1) if found else None
    assert whole_batches(MemoryStore(bytearray(data)), 0, len(data)) == end


class OfFirstEpoch(MemoryStore):
    """As a file that no later leader has written to: checksums do not cover the leader epoch."""

    latest_epoch = 0


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=8),
    st.integers(0, 2_000),
    st.integers(1, 255),
    st.integers(0, 2_000),
    st.integers(0, 2_000),
    st.integers(1, 8),
)
def test_intact_ends_before_the_first_byte_that_changed(values, at, flipped, end, needed, most):
    data, starts = bytearray(), []
    for offset, value in enumerate(values):
        starts.append(len(data))
        data += at_offset(offset, value)
    at %= len(data)
    data[at] ^= flipped
    damaged = sum(start <= at for start in starts) - 1
    store = OfFirstEpoch(data)
    found = list(scan.intact(store, 0, 0))
    # A larger base offset is taken for a gap, until the next batch has a smaller one.
    is_gap = at - starts[damaged] < START.size - 8 and len(found) == damaged + 1
    assert len(found) == damaged or is_gap
    assert [position for position, _, _ in found] == starts[: len(found)]
    assert list(scan.extents(store, 0, 0)) == [
        (at, at + header.size, header.base_offset, header.last_offset, header.max_timestamp)
        for at, header, _ in found
    ]
    assert scan.check(store, 0, 0, end, max_batches=most, needed=needed) == checked(
        found, end, needed, most
    )


def checked(found, end, needed, most):
    """What `scan.check` returns where `intact` finds these batches."""
    result = scan.Checked(0, 0, 0, 0, True)
    for number, (at, header, _) in enumerate(found, 1):
        is_last = at >= end or (number >= most and at > needed)
        result = scan.Checked(
            at + header.size, header.last_offset + 1, at, result.next_offset, not is_last
        )
        if is_last:
            break
    return result


@given(st.integers(0, 60), st.integers(1, 300_000))
def test_intact_ends_before_a_batch_that_is_cut(missing, size):
    small, large = at_offset(0, b""), at_offset(1, bytes(size))
    store = MemoryStore(bytearray((small + large)[: len(small) + len(large) - missing]))
    found = [(at, bytes(batch)) for at, _, batch in scan.intact(store, 0, 0)]
    assert found == [(0, small), (len(small), large)][: 1 if missing else 2]
    end = scan.check(store, 0, 0, store.size, max_batches=9, needed=0)
    assert end.valid_end == sum(len(batch) for _, batch in found)


@given(st.integers(0, 200))
def test_intact_ends_where_a_file_has_become_shorter_than_it_was(left):
    small = at_offset(0, b"")
    store = MemoryStore(bytearray((small + at_offset(1, bytes(300)))[:left]))
    store.size = len(small) + 400_000
    assert len(list(scan.intact(store, 0, 0))) == (left >= len(small))
    assert scan.check(store, 0, 0, store.size, max_batches=9, needed=0).is_end


def at_offset(offset, value):
    encoded = batches.build([Record(None, value)])
    return START.pack(offset, len(encoded) - SIZE_OVERHEAD, 0) + encoded[START.size :]
