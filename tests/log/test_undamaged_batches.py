"""The undamaged batches around one damaged batch."""

from hypothesis import example, given
from hypothesis import strategies as st

from kohort.log.stores import MemoryStore
from kohort.log.undamaged_batches import undamaged_batches
from kohort.protocol import batches
from kohort.protocol.batch_format import SIZE_OVERHEAD, START
from kohort.protocol.batches import Record


class StoreOfEpoch0(MemoryStore):
    """As of a log that never had another leader, so a changed epoch is noticed."""

    latest_epoch = 0


def at_offset(offset, value):
    encoded = batches.build([Record(None, value)])
    return START.pack(offset, len(encoded) - SIZE_OVERHEAD, 0) + encoded[START.size :]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=50)), min_size=1, max_size=8),
    st.booleans(),
    st.integers(0, 5_000),
    st.integers(0, 7),
)
@example([(0, b""), (0, b"")], False, 68 + 12, 0)  # the epoch of the last one
def test_batches_around_one_changed_bit_are_found(written, is_compacted, at, bit):
    data, offset = bytearray(), 0
    for gap, value in written:
        offset += gap if is_compacted else 0
        data += at_offset(offset, value)
        offset += 1
    before = list(batches.iterate(data))
    at %= len(data)
    data[at] ^= 1 << bit
    found = list(undamaged_batches(StoreOfEpoch0(data), 0, 0, offset))
    changed = max(number for number, (position, _) in enumerate(before) if position <= at)
    lost = [each for each in before if each not in found]
    assert before[changed] in lost
    if not is_compacted:
        assert [each for each in found if each not in before] == []
        assert lost == [before[changed]]
        return
    # In doubt a batch beside it does not count either; a wrong offset within a gap looks right.
    assert set(lost) <= set(before[max(changed - 1, 0) : changed + 2])
    ends = [0, *(header.last_offset + 1 for _, header in before)]
    starts = [*(header.base_offset for _, header in before[1:]), offset]
    for position, header in found:
        if (position, header) not in before:
            assert position == before[changed][0]
            assert ends[changed] <= header.base_offset <= header.last_offset < starts[changed]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_none_in_noise(data, start):
    store = MemoryStore(bytearray(data))
    assert list(undamaged_batches(store, min(start, len(data)), 0, 100)) == []
