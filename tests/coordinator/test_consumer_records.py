"""The records of consumer groups, byte for byte as Apache Kafka 4.4 writes them."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    PartitionMetadataRecord,
    RegularExpressionKey,
    RegularExpressionRecord,
    RegularExpressionValue,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.records import decode, encode
from kohort.coordinator_common import CorruptRecordError

T = UUID("7610dcab-1dee-4bc7-b612-ca9caa2ef45a")
GROUP = GroupKey("g1x")
A, B = MemberKey("g1x", "A"), MemberKey("g1x", "B")

WRITTEN_BY_KAFKA = {
    "a group": (
        "00030003673178",
        "000000000002010008bf32b7d63fb0390a",
        ConsumerGroupMetadataRecord(
            GROUP, ConsumerGroupMetadataValue(2, -4_669_467_732_810_385_142)
        ),
    ),
    "a group without topics": (
        "00030003673178",
        "00000000000500",
        ConsumerGroupMetadataRecord(GROUP, ConsumerGroupMetadataValue(5)),
    ),
    "metadata of topics, deleted": (
        "00040003673378",
        None,
        PartitionMetadataRecord(GroupKey("g3x"), None),
    ),
    "a member with a rack and an assignor": (
        "00050003673178000141",
        "0000000372310363310b2f3132372e302e302e31020274010000753008756e69666f726d01000100",
        ConsumerGroupMemberMetadataRecord(
            A,
            ConsumerGroupMemberMetadataValue(
                None, "r1", "c1", "/127.0.0.1", ("t",), "", 30_000, "uniform"
            ),
        ),
    ),
    "a static member": (
        "00050003673178000142",
        "0000036962000363310b2f3132372e302e302e3102027401000075300001000100",
        ConsumerGroupMemberMetadataRecord(
            B,
            ConsumerGroupMemberMetadataValue("ib", None, "c1", "/127.0.0.1", ("t",), "", 30_000),
        ),
    ),
    "a member with a regular expression": (
        "00050003673278000141",
        "000000000363310b2f3132372e302e302e310104742e2a000075300001000100",
        ConsumerGroupMemberMetadataRecord(
            MemberKey("g2x", "A"),
            ConsumerGroupMemberMetadataValue(None, None, "c1", "/127.0.0.1", (), "t.*", 30_000),
        ),
    ),
    "the target of a group": (
        "00060003673178",
        "000000000002010008000001a20506aa0b",
        TargetAssignmentMetadataRecord(GROUP, TargetAssignmentMetadataValue(2, 1_795_380_652_555)),
    ),
    "the target of a member": (
        "00070003673178000141",
        "0000027610dcab1dee4bc7b612ca9caa2ef45a0300000000000000010000",
        TargetAssignmentMemberRecord(A, TargetAssignmentMemberValue({T: (0, 1)})),
    ),
    "an empty target": (
        "00070003673178000141",
        "00000100",
        TargetAssignmentMemberRecord(A, TargetAssignmentMemberValue({})),
    ),
    "a stable member": (
        "00080003673178000141",
        "0000000000020000000000027610dcab1dee4bc7b612ca9caa2ef45a"
        "0300000000000000010100090300000002000000020100",
        CurrentMemberAssignmentRecord(
            A, CurrentMemberAssignmentValue(2, 0, 0, {T: {0: 2, 1: 2}}, {})
        ),
    ),
    "a member that waits for partitions": (
        "00080003673178000142",
        "0000000000030000000302010100",
        CurrentMemberAssignmentRecord(B, CurrentMemberAssignmentValue(3, 3, 2, {}, {})),
    ),
    "a member that has to revoke": (
        "00080003673178000141",
        "0000000000020000000201027610dcab1dee4bc7b612ca9caa2ef45a"
        "0200000000010005020000000202"
        "7610dcab1dee4bc7b612ca9caa2ef45a0200000001010005020000000200",
        CurrentMemberAssignmentRecord(
            A, CurrentMemberAssignmentValue(2, 2, 1, {T: {0: 2}}, {T: {1: 2}})
        ),
    ),
    "a static member that left": (
        "00080003673178000142",
        "0000fffffffe0000000300027610dcab1dee4bc7b612ca9caa2ef45a020000000101000502000000000100",
        CurrentMemberAssignmentRecord(B, CurrentMemberAssignmentValue(-2, 3, 0, {T: {1: 0}}, {})),
    ),
    "a resolved regular expression": (
        "001000036732780003742e2a",
        "0000020274000000000000018f000001a20506acaa00",
        RegularExpressionRecord(
            RegularExpressionKey("g2x", "t.*"),
            RegularExpressionValue(("t",), 399, 1_795_380_653_226),
        ),
    ),
    "a regular expression, forgotten": (
        "001000036732780003742e2a",
        None,
        RegularExpressionRecord(RegularExpressionKey("g2x", "t.*"), None),
    ),
}


def unhex(text):
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize(
    ("key", "value", "record"), WRITTEN_BY_KAFKA.values(), ids=WRITTEN_BY_KAFKA
)
def test_records_of_kafka_are_read_and_written_byte_for_byte(key, value, record):
    assert decode(unhex(key), unhex(value)) == record
    assert encode(record) == (unhex(key), unhex(value))


def test_a_member_without_metadata_of_the_classic_protocol_is_an_empty_classic_member():
    """Kafka takes it for one; the mark of a consumer member is a null."""
    key, value, record = WRITTEN_BY_KAFKA["a static member"]
    without = unhex(value).removesuffix(bytes.fromhex("01000100")) + b"\0"
    assert isinstance(record, ConsumerGroupMemberMetadataRecord)
    assert record.value is not None
    classic = record.value._replace(classic=ClassicMemberMetadata(0, ()))
    assert decode(unhex(key), without).value == classic


def test_before_kafka_4_3_partitions_have_the_epoch_of_their_member():
    value = "0000" + "00000007" + "00000006" + "00" + "02" + T.hex + "020000000100" + "01" + "00"
    key = unhex("00080003673178000141")
    assert decode(key, unhex(value)).value == CurrentMemberAssignmentValue(7, 6, 0, {T: {1: 7}}, {})
    left = value.replace("00000007", "fffffffe")
    assert decode(key, unhex(left)).value.assigned == {T: {1: 0}}


CORRUPT = {
    "no member": ("000500016700", "0000"),
    "a version of the future": ("0003000167", "000100000001"),
    "more partitions than bytes": ("000700016700016d", "000002" + T.hex + "ffffffff0f"),
    "half a hash": ("0003000167", "0000000000010100040000000000"),
}


@pytest.mark.parametrize(("key", "value"), CORRUPT.values(), ids=CORRUPT)
def test_bytes_that_do_not_follow_the_schema_are_corrupt(key, value):
    with pytest.raises(CorruptRecordError):
        decode(unhex(key), unhex(value))


texts = st.text(st.characters(codec="utf-8"), max_size=9)
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
assigned = st.dictionaries(
    st.uuids(), st.dictionaries(int32s, int32s, min_size=1, max_size=3), max_size=3
)
classic_members = st.builds(
    ClassicMemberMetadata,
    int32s,
    st.lists(st.tuples(texts, st.binary(max_size=9)), max_size=3).map(tuple),
)
group_keys, member_keys = st.builds(GroupKey, texts), st.builds(MemberKey, texts, texts)
names = st.lists(texts, max_size=3).map(tuple)
records = st.one_of(
    st.builds(
        ConsumerGroupMetadataRecord,
        group_keys,
        st.none() | st.builds(ConsumerGroupMetadataValue, int32s, int64s),
    ),
    st.builds(
        ConsumerGroupMemberMetadataRecord,
        member_keys,
        st.none()
        | st.builds(
            ConsumerGroupMemberMetadataValue,
            st.none() | texts,
            st.none() | texts,
            texts,
            texts,
            names,
            texts,
            int32s,
            st.none() | texts,
            st.none() | classic_members,
        ),
    ),
    st.builds(
        TargetAssignmentMetadataRecord,
        group_keys,
        st.none() | st.builds(TargetAssignmentMetadataValue, int32s, int64s),
    ),
    st.builds(
        TargetAssignmentMemberRecord,
        member_keys,
        st.none()
        | st.builds(
            TargetAssignmentMemberValue,
            st.dictionaries(
                st.uuids(), st.lists(int32s, min_size=1, max_size=3).map(tuple), max_size=3
            ),
        ),
    ),
    st.builds(
        CurrentMemberAssignmentRecord,
        member_keys,
        st.none()
        | st.builds(
            CurrentMemberAssignmentValue, int32s, int32s, st.integers(-128, 127), assigned, assigned
        ),
    ),
    st.builds(
        RegularExpressionRecord,
        st.builds(RegularExpressionKey, texts, texts),
        st.none() | st.builds(RegularExpressionValue, names, int64s, int64s),
    ),
)


@settings(max_examples=examples(200))
@given(record=records)
def test_encoded_consumer_group_records_decode_to_the_same(record):
    assert decode(*encode(record)) == record


@given(record=records)
def test_no_prefix_of_a_value_is_a_value(record):
    key, value = encode(record)
    for length in range(len(value or b"")):
        with pytest.raises(CorruptRecordError):
            decode(key, value[:length])
