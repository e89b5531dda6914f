"""What is read straight from the bytes is what kio reads, or is left to kio."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import decode_request, encode, request
from kohort.protocol.request_fast_path import (
    read_heartbeat,
    read_member,
    read_offset_commit,
    read_single_batch,
    read_steady_heartbeat,
)

PRODUCE, HEARTBEAT, OFFSET_COMMIT = 0, 12, 8
texts = st.text(max_size=60) | st.text(alphabet="m", min_size=120, max_size=130)


VERSIONS = range(5)


def by_kio(data, version, at=0):
    read = decode_request(HEARTBEAT, version, data, at)
    instance_id = read.group_instance_id if version >= 3 else None
    return read.group_id, read.generation_id, read.member_id, instance_id


def heartbeat(version, group, generation, member, instance):
    fields = {"group_id": group, "generation_id": generation, "member_id": member}
    if version >= 3:
        fields["group_instance_id"] = instance
    return encode(request(HEARTBEAT, version, **fields))


@given(st.sampled_from(VERSIONS), texts, st.integers(-(2**31), 2**31 - 1), texts, st.none() | texts,
       st.binary(max_size=5))  # fmt: skip
def test_a_heartbeat_is_read_as_kio_reads_it(version, group, generation, member, instance, before):
    data = before + heartbeat(version, group, generation, member, instance)
    at = len(before)
    usual = version < 4 or all(len(text.encode()) < 127 for text in (group, member, instance or ""))
    assert read_heartbeat(data, at, version) == (by_kio(data, version, at) if usual else None)


@given(st.sampled_from(VERSIONS), st.binary(max_size=40))
def test_any_bytes_are_read_as_kio_reads_them_or_left_to_it(version, data):
    read = read_heartbeat(data, 0, version)
    if read is not None:
        assert read == by_kio(data, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("instance", ["i", None])
def test_hostile_bytes_at_each_position(version, instance):
    data = heartbeat(version, "group", 7, "member", instance)
    for at in range(len(data)):
        for byte in (0, 1, 2, 0x7F, 0x80, 0xC3, 0xFE, 0xFF):
            for size in (1, 2, 4):
                changed = (data[:at] + bytes((byte,)) * size + data[at + size :])[: len(data)]
                try:
                    slow = by_kio(changed, version)
                except MalformedError:
                    slow = None
                assert read_heartbeat(changed, 0, version) in (slow, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_that_ends_early_is_left_to_kio(version):
    data = heartbeat(version, "g", 1, "m", "i")
    assert all(read_heartbeat(data[:end], 0, version) is None for end in range(len(data)))
    assert read_heartbeat(data, 0, version) == by_kio(data, version)
    assert read_heartbeat(data + b"more", 0, version) == by_kio(data, version)


def steady(version, **fields):
    named = {"group_id": "g", "member_id": "mé", "member_epoch": 3, "topic_partitions": None}
    return encode(request(68, version, **named | fields))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_heartbeat_that_says_nothing_new_is_read(version, instance):
    data = steady(version, instance_id=instance)
    assert read_steady_heartbeat(b"before" + data, 6, version) == ("g", 3, "mé", instance)
    assert all(read_steady_heartbeat(data[:end], 0, version) is None for end in range(len(data)))
    assert read_steady_heartbeat(data + b"more", 0, version) is None


def test_an_empty_regular_expression_is_nothing_new():
    assert read_steady_heartbeat(steady(1, subscribed_topic_regex=""), 0, 1) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"rack_id": ""},
        {"rebalance_timeout": 5},
        {"subscribed_topic_names": []},
        {"subscribed_topic_regex": "x"},
        {"server_assignor": ""},
        {"topic_partitions": []},
        {"member_id": "m" * 127},
    ],
)
def test_a_heartbeat_that_says_more_is_left_to_kio(fields):
    assert read_steady_heartbeat(steady(1, **fields), 0, 1) is None


def test_a_heartbeat_with_tags_is_left_to_kio():
    data = heartbeat(4, "g", 1, "m", "i")
    assert read_heartbeat(data[:-1] + b"\x01\x09\x01x", 0, 4) is None


def committed(data, version):
    """What kio reads, in the form of `read_offset_commit`."""
    read = decode_request(OFFSET_COMMIT, version, data)
    who = (
        read.group_id,
        read.generation_id_or_member_epoch,
        read.member_id,
        read.group_instance_id,
    )
    return who, [
        (
            topic.topic_id.bytes if version >= 10 else topic.name.encode(),
            tuple(each.partition_index & 0xFFFFFFFF for each in topic.partitions),
            tuple(
                each.committed_offset.to_bytes(8, "big", signed=True)
                + each.committed_leader_epoch.to_bytes(4, "big", signed=True)
                for each in topic.partitions
            ),
        )
        for topic in read.topics
    ]


def same(data, version):
    """Whether it was read, and then as kio reads it."""
    found = read_offset_commit(data, 0, by_id=version >= 10)
    if found is None or (who := read_member(found[0], 0)) is None:
        return False
    assert (who, found[1]) == committed(data, version)
    return True


int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=20)
positions = st.lists(st.tuples(int32s, int64s, int32s), min_size=1, max_size=3) | st.just(
    [(0, 1, 2)] * 200
)


@given(st.integers(8, 10), names, int32s, names, st.none() | names,
       st.lists(st.tuples(names, st.uuids(), positions), min_size=1, max_size=3))  # fmt: skip
def test_a_commit_is_read_as_kio_reads_it(version, group, generation, member, instance, topics):
    who = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
    asked = [
        {
            "name": name,
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": p,
                    "committed_offset": o,
                    "committed_leader_epoch": e,
                    "committed_metadata": "",
                }
                for p, o, e in positions
            ],
        }
        for name, topic_id, positions in topics
    ]
    assert same(
        encode(request(OFFSET_COMMIT, version, **who, group_instance_id=instance, topics=asked)),
        version,
    )


USUAL = bytes.fromhex(
    "0267ffffffff010002027403"
    + "00000001"
    + "00" * 12
    + "0100"
    + "00000002"
    + "00" * 12
    + "00000000"
)


def test_the_request_that_the_examples_change_takes_the_fast_path():
    assert same(USUAL, 9)


@given(st.data())
def test_a_damaged_commit_is_read_as_kio_reads_it_or_not_at_all(data):
    damaged = bytearray(USUAL)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(USUAL) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(
        damaged[: data.draw(st.integers(0, len(USUAL)))] if data.draw(st.booleans()) else damaged
    )
    for version in (8, 9, 10):
        try:
            same(cut, version)
        except MalformedError:
            pytest.fail("it was read, and kio refuses it")


def produced(data, version):
    """The fields of a request with one batch as kio reads them, None for any other."""
    try:
        read = decode_request(PRODUCE, version, data)
    except MalformedError:
        return None
    if read.transactional_id is not None or len(read.topic_data) != 1:
        return None
    (topic,) = read.topic_data
    if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
        return None
    (partition,) = topic.partition_data
    key = topic.topic_id or UUID(int=0) if version >= 13 else topic.name
    return read.acks, key, partition.index, partition.records


def one_batch(version, topic="t", partition=3, records=b"records", **fields):
    key = {"topic_id": UUID(int=7)} if version >= 13 else {"name": topic}
    data = [{"index": partition, "records": records}]
    topics = [{**key, "partition_data": data}]
    return encode(request(PRODUCE, version, acks=-1, topic_data=topics, **fields))


@given(st.integers(9, 13), st.text(max_size=60), st.integers(0, 9), st.binary(max_size=20_000))
def test_a_batch_is_read_as_kio_reads_it(version, topic, partition, records):
    data = one_batch(version, topic, partition, records)
    if len(topic.encode()) < 127:
        assert read_single_batch(data, 0, version) == produced(data, version) is not None
    assert read_single_batch(b"head" + data + b"more", 4, version) == produced(data, version)
    assert all(
        read_single_batch(data[:end], 0, version) is None for end in range(min(60, len(data)))
    )


@pytest.mark.parametrize("version", range(9, 14))
def test_a_produce_request_of_more_is_left_to_kio(version):
    many = {"topic_data": [{"partition_data": []}]}
    for data in (
        one_batch(version, transactional_id="id"),
        one_batch(version, records=None),
        encode(request(PRODUCE, version, acks=-1, topic_data=[])),
        encode(request(PRODUCE, version, acks=-1, **many)),
    ):
        assert read_single_batch(data, 0, version) is None


@pytest.mark.parametrize("version", range(9, 14))
def test_a_damaged_batch_is_read_as_kio_reads_it_or_not_at_all(version):
    data = one_batch(version, "topic")
    for at in range(len(data)):
        for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xC3, 0xFF):
            changed = data[:at] + bytes((byte,)) + data[at + 1 :]
            found = read_single_batch(changed, 0, version)
            assert found is None or found == produced(changed, version)
