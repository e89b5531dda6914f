"""The first record at or after a time: a walk over all records is the judge."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.protocol import batches
from kohort.protocol.batches import CONTROL, TRANSACTIONAL, Codec, Record
from kohort.segments import find_replicas, offset_at
from segments.files import NOW, Partition, batch


def replica_of(partition):
    ((replica,),) = find_replicas([str(partition.path)]).values()
    return replica


times = st.lists(st.integers(-1, 30), min_size=1, max_size=4)


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.tuples(times, st.sampled_from(Codec)), max_size=3), max_size=3),
    st.integers(0, 32),
)
def test_the_first_record_at_or_after_a_time_is_found(tmp_path_factory, segments, wanted):
    partition, end, expected = Partition(tmp_path_factory.mktemp("times")), 0, None
    for contents in segments:
        base, data = end, b""
        for stamps, codec in contents:
            records = [Record(b"k", b"v", (), stamp) for stamp in stamps]
            data += batches.build(records, base_offset=end, codec=codec)
            matching = [end + at for at, stamp in enumerate(stamps) if stamp >= wanted]
            expected = matching[0] if expected is None and matching else expected
            end += len(stamps)
        if data:
            partition.segment(base, data)
    assert offset_at(replica_of(partition), wanted) == expected


def test_control_records_and_append_times_count(tmp_path):
    partition = Partition(tmp_path)
    marker = [Record(bytes(4), bytes(6), (), NOW + 5)]
    control = batches.build(
        marker, base_offset=2, producer_id=1, attributes=TRANSACTIONAL | CONTROL
    )
    partition.segment(0, batch(0) + control)
    assert offset_at(replica_of(partition), NOW + 2) == 2


@pytest.mark.parametrize("at", [16, 70])
def test_damage_is_passed_over(tmp_path, at):
    partition = Partition(tmp_path)
    broken = bytearray(batch(0))
    broken[at] ^= 1
    partition.segment(0, bytes(broken))
    partition.segment(4, batch(4))
    assert offset_at(replica_of(partition), NOW) == 4
    assert offset_at(replica_of(partition), NOW + 2) is None
