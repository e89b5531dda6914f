"""The map of compaction: as a dict, in memory of a fixed size."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.log.compaction import MAX_KEYS
from kohort.log.latest_offsets import LatestOffsets

keys = st.binary(max_size=2) | st.binary(min_size=300, max_size=400)
updates = st.lists(st.tuples(keys, st.integers(0, 2**62)), max_size=60)


@given(updates)
def test_latest_offsets_answer_as_a_dict(updates):
    known = dict(updates)
    latest = LatestOffsets(len(known))
    for count, update in enumerate(updates, 1):
        latest.update([update])
        assert latest.get(update[0]) == update[1]
        assert len(latest) == len(dict(updates[:count])) == len(known) - latest.room
    assert {key: latest.get(key) for key in known} == known
    assert latest.get(b"another") == -1
    latest.close()


def test_latest_offsets_take_the_same_memory_for_keys_of_any_size():
    latest = LatestOffsets(MAX_KEYS)
    size = latest.size
    latest.update([(bytes(1_000_000), 1)])
    assert latest.size == size <= 101_000_000
    latest.close()
