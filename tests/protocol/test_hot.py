"""What is read straight from the bytes is what kio reads, or is left to kio."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.hot import read_heartbeat
from kohort.protocol.messages import decode_request, encode, request

HEARTBEAT = 12
texts = st.text(max_size=60) | st.text(alphabet="m", min_size=120, max_size=130)


def by_kio(data, at=0):
    read = decode_request(HEARTBEAT, 4, data, at)
    return read.group_id, read.generation_id, read.member_id, read.group_instance_id


@given(texts, st.integers(-(2**31), 2**31 - 1), texts, st.none() | texts, st.binary(max_size=5))
def test_a_heartbeat_is_read_as_kio_reads_it(group, generation, member, instance, before):
    fields = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
    data = before + encode(request(HEARTBEAT, 4, **fields))
    usual = all(len(text.encode()) < 127 for text in (group, member, instance or ""))
    assert read_heartbeat(data, len(before)) == (by_kio(data, len(before)) if usual else None)


@given(st.binary(max_size=40))
def test_whatever_the_bytes_are_it_reads_what_kio_reads_or_nothing(data):
    read = read_heartbeat(data, 0)
    if read is not None:
        assert read == by_kio(data)


def test_a_heartbeat_that_ends_early_or_has_tags_is_left_to_kio():
    data = encode(request(HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id="i"))
    assert all(read_heartbeat(data[:end], 0) is None for end in range(len(data)))
    assert read_heartbeat(data[:-1] + b"\x01\x09\x01x", 0) is None
