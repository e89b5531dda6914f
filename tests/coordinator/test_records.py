"""The records of `__consumer_offsets`, byte for byte as Apache Kafka 4.4 writes them.

`WRITTEN_BY_KAFKA` was read from the log of a running broker; `BY_VERSION` was written by Kafka's
own serializers, one line for each version that its schema has.
"""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode,
    encode,
    encoded_size,
    too_long,
)
from kohort.coordinator_common import CorruptRecordError

ORDERS = UUID("b0ed944e-ed80-4fd8-a874-b54e2d2487ea")
GONE = UUID("cd9694f1-a31d-4f4f-8af2-494603d7a4a9")
C1 = "c1-7f92a05f-6309-4b84-8c2d-b69a7b5f98bb"
STATIC = "i-1-8b06e59f-a7ea-4d97-aef7-994039969c98"
SUBSCRIPTION = bytes.fromhex("00010000000100066f7264657273ffffffff00000000")
ASSIGNMENT = bytes.fromhex("00010000000100066f7264657273000000020000000000000001ffffffff")

WRITTEN_BY_KAFKA = {
    "a new group": (
        "00020009636c61737369632d32",
        "0003000000000000ffffffff000001a1fdd18c0b00000000",
        GroupMetadataRecord(
            GroupMetadataKey("classic-2"), GroupMetadataValue("", 0, None, None, 0x1A1FDD18C0B, ())
        ),
    ),
    "a synced group": (
        "00020009636c61737369632d32",
        "00030008636f6e73756d657200000001000572616e6765002763312d37663932613035662d363330392d346238342d386332642d6236396"
        "13762356639386262000001a1fdd18c1300000001002763312d37663932613035662d363330392d346238342d386332642d623639613762"
        "356639386262ffff00026331000a2f3132372e302e302e310000ea60000075300000001600010000000100066f7264657273ffffffff00"
        "0000000000001e00010000000100066f7264657273000000020000000000000001ffffffff",
        GroupMetadataRecord(
            GroupMetadataKey("classic-2"),
            GroupMetadataValue(
                "consumer",
                1,
                "range",
                C1,
                0x1A1FDD18C13,
                (
                    MemberMetadata(
                        C1, None, "c1", "/127.0.0.1", 60_000, 30_000, SUBSCRIPTION, ASSIGNMENT
                    ),
                ),
            ),
        ),
    ),
    "a static member of another type, replaced": (
        "000200087374617469632d32",
        "00030007636f6e6e65637400000001000a636f6d70617469626c650028692d312d38623036653539662d613765612d346439372d61656637"
        "2d393934303339393639633938000001a1fdd18cbf000000010028692d312d38623036653539662d613765612d346439372d616566372d39"
        "39343033393936396339380003692d3100026332000a2f3132372e302e302e310000ea6000007530000000056d6574613200000009616c6c"
        "206f66206974",
        GroupMetadataRecord(
            GroupMetadataKey("static-2"),
            GroupMetadataValue(
                "connect",
                1,
                "compatible",
                STATIC,
                0x1A1FDD18CBF,
                (
                    MemberMetadata(
                        STATIC, "i-1", "c2", "/127.0.0.1", 60_000, 30_000, b"meta2", b"all of it"
                    ),
                ),
            ),
        ),
    ),
    "a group that its last member left": (
        "00020009636c61737369632d32",
        "00030008636f6e73756d657200000002ffffffff000001a1fdd18d7900000000",
        GroupMetadataRecord(
            GroupMetadataKey("classic-2"),
            GroupMetadataValue("consumer", 2, None, None, 0x1A1FDD18D79, ()),
        ),
    ),
    "a deleted group": (
        "00020009636c61737369632d32",
        None,
        GroupMetadataRecord(GroupMetadataKey("classic-2"), None),
    ),
    "an offset with epoch and metadata": (
        "00010009636c61737369632d3200066f726465727300000000",
        "0004000000000000002a0000000708c3a9206e6f7465000001a1fdd18cb5010010b0ed944eed804fd8a874b54e2d2487ea",
        OffsetCommitRecord(
            OffsetCommitKey("classic-2", "orders", 0),
            OffsetCommitValue(42, 7, "é note", 0x1A1FDD18CB5, topic_id=ORDERS),
        ),
    ),
    "an offset without": (
        "0001000673696d706c650004676f6e6500000000",
        "000400000000000000090000000001000001a1fdd18cca010010cd9694f1a31d4f4f8af2494603d7a4a9",
        OffsetCommitRecord(
            OffsetCommitKey("simple", "gone", 0),
            OffsetCommitValue(9, 0, "", 0x1A1FDD18CCA, topic_id=GONE),
        ),
    ),
    "an offset without a topic id": (
        "00010007747867726f757000066f726465727300000000",
        "0004000000000000000bffffffff01000001a1fdd198d300",
        OffsetCommitRecord(
            OffsetCommitKey("txgroup", "orders", 0), OffsetCommitValue(11, -1, "", 0x1A1FDD198D3)
        ),
    ),
    "an offset with its own expiry": (
        "0001000673696d706c6500066f726465727300000002",
        "000100000000000003e8000872657461696e6564000001a1fdd18cc6000001a1fe087b46",
        OffsetCommitRecord(
            OffsetCommitKey("simple", "orders", 2),
            OffsetCommitValue(1_000, -1, "retained", 0x1A1FDD18CC6, 0x1A1FE087B46),
        ),
    ),
    "a deleted offset": (
        "0001000673696d706c6500066f726465727300000002",
        None,
        OffsetCommitRecord(OffsetCommitKey("simple", "orders", 2), None),
    ),
}

OF_OTHER_PROTOCOLS = {
    "10: of share groups": ("000a000161", "0000"),
    "23: of streams groups": ("0017000161", "0000"),
    "a type of the future": ("7fff", "00"),
    "a negative type": ("ffff00", None),
}

OFFSET_KEY = OffsetCommitKey("g", "orders", 3)
OFFSET_KEY_BYTES = "000100016700066f726465727300000003"
LEGACY_OFFSET_KEY_BYTES = "000000016700066f726465727300000003"
AT = 1_700_000_000_000

OFFSET_BY_VERSION = [
    (
        "0000000000000000002a0007c3a9206e6f74650000018bcfe56800",
        OffsetCommitValue(42, -1, "é note", AT),
    ),
    (
        "0001000000000000002a0007c3a9206e6f74650000018bcfe568000000018bcfeae640",
        OffsetCommitValue(42, -1, "é note", AT, AT + 360_000),
    ),
    (
        "0002000000000000002a0007c3a9206e6f74650000018bcfe56800",
        OffsetCommitValue(42, -1, "é note", AT),
    ),
    (
        "0003000000000000002a000000070007c3a9206e6f74650000018bcfe56800",
        OffsetCommitValue(42, 7, "é note", AT),
    ),
    (
        "0004000000000000002a0000000708c3a9206e6f74650000018bcfe568000100100123456789abcdef0edcba9876543210",
        OffsetCommitValue(
            42, 7, "é note", AT, topic_id=UUID("01234567-89ab-cdef-0edc-ba9876543210")
        ),
    ),
    ("0004ffffffffffffffffffffffff01000000000000000100", OffsetCommitValue(-1, -1, "", 1)),
]


def group_value(*, rebalance_timeout_ms=60_000, instance_id=None, timestamp=AT):
    member = MemberMetadata(
        "m-1", instance_id, "c", "/10.0.0.1", rebalance_timeout_ms, 10_000, b"\x01\x02", b"\x03"
    )
    return GroupMetadataValue("consumer", 5, "range", "m-1", timestamp, (member,))


GROUP_BY_VERSION = [
    (
        "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d3100016300092f31302e302e302e310000271000"
        "00000201020000000103",
        group_value(rebalance_timeout_ms=10_000, timestamp=-1),
    ),
    (
        "00010008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d3100016300092f31302e302e302e310000ea6000"
        "0027100000000201020000000103",
        group_value(timestamp=-1),
    ),
    (
        "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d3100016300092f31302e302e"
        "302e310000ea60000027100000000201020000000103",
        group_value(),
    ),
    (
        "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d310003692d31000163000"
        "92f31302e302e302e310000ea60000027100000000201020000000103",
        group_value(instance_id="i-1"),
    ),
    (
        "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630a2f31302e302e302e310000"
        "ea600000271003010202030000",
        group_value(instance_id="i-1"),
    ),
    (
        "0003000000000000ffffffffffffffffffffffff00000000",
        GroupMetadataValue("", 0, None, None, -1, ()),
    ),
    ("000401000000000000ffffffffffffffff0100", GroupMetadataValue("", 0, None, None, -1, ())),
]


def unhex(text):
    return None if text is None else bytes.fromhex(text)


# --- what Kafka wrote ---


@pytest.mark.parametrize(
    ("key", "value", "record"), WRITTEN_BY_KAFKA.values(), ids=WRITTEN_BY_KAFKA
)
def test_records_of_kafka_are_read_and_written_byte_for_byte(key, value, record):
    assert decode(unhex(key), unhex(value)) == record
    assert encode(record) == (unhex(key), unhex(value))


@pytest.mark.parametrize(("key", "value"), OF_OTHER_PROTOCOLS.values(), ids=OF_OTHER_PROTOCOLS)
def test_types_of_protocols_that_are_not_served_are_no_records(key, value):
    assert decode(unhex(key), unhex(value)) is None


@pytest.mark.parametrize(("data", "value"), OFFSET_BY_VERSION)
@pytest.mark.parametrize(
    "key", [OFFSET_KEY_BYTES, LEGACY_OFFSET_KEY_BYTES], ids=["key", "legacy key"]
)
def test_every_version_of_an_offset_is_read(data, value, key):
    assert decode(unhex(key), unhex(data)) == OffsetCommitRecord(OFFSET_KEY, value)


@pytest.mark.parametrize(("data", "value"), GROUP_BY_VERSION)
def test_every_version_of_a_group_is_read(data, value):
    """Before version 1 the session timeout stands in for the rebalance timeout."""
    assert decode(b"\x00\x02\x00\x01g", unhex(data)) == GroupMetadataRecord(
        GroupMetadataKey("g"), value
    )


def test_an_offset_is_written_as_version_4_or_1_with_an_expiry():
    for data, value in OFFSET_BY_VERSION[1], *OFFSET_BY_VERSION[4:]:
        assert encode(OffsetCommitRecord(OFFSET_KEY, value)) == (
            unhex(OFFSET_KEY_BYTES),
            unhex(data),
        )


def test_a_group_is_written_as_version_3():
    for data, value in GROUP_BY_VERSION[3], GROUP_BY_VERSION[5]:
        assert encode(GroupMetadataRecord(GroupMetadataKey("g"), value)) == (
            b"\x00\x02\x00\x01g",
            unhex(data),
        )
        assert encoded_size(value) == len(unhex(data))


def test_metadata_of_more_than_a_varint_byte_is_written_as_kafka_does():
    record = OffsetCommitRecord(OFFSET_KEY, OffsetCommitValue(1, 0, "x" * 200, 2))
    _, value = encode(record)
    assert value[14:16] == b"\xc9\x01"
    assert decode(*encode(record)) == record


def test_tags_of_the_future_are_passed_over():
    """Tag 1 of 2 bytes behind the topic id, and tags in members and group."""
    data = (
        "0004ffffffffffffffffffffffff010000000000000001"
        "0200100123456789abcdef0edcba98765432100102aaaa"
    )
    record = decode(unhex(OFFSET_KEY_BYTES), unhex(data))
    assert record.value.topic_id == UUID("01234567-89ab-cdef-0edc-ba9876543210")
    group = GROUP_BY_VERSION[4][0].removesuffix("0000") + "0105010a" + "01070299aa"
    assert decode(b"\x00\x02\x00\x01g", unhex(group)).value == GROUP_BY_VERSION[4][1]


# --- what nobody wrote ---

CORRUPT = {
    "an empty key": ("", None),
    "half a type": ("00", None),
    "a key that ends in its group": ("0002000567", None),
    "a key without its partition": ("000100016700066f7264657273", None),
    "a null group": ("0002ffff", None),
    "a null topic": ("0001000167ffff00000000", None),
    "a group id that is not UTF-8": ("00020001ff", None),
    "an empty value": (OFFSET_KEY_BYTES, ""),
    "a version of the future": (OFFSET_KEY_BYTES, "0005"),
    "a negative version": (OFFSET_KEY_BYTES, "ffff"),
    "an offset that ends early": (OFFSET_KEY_BYTES, "0004ffffffffffffffffffffffff0100000000000001"),
    "null metadata": (OFFSET_KEY_BYTES, "0003000000000000002a00000007ffff0000018bcfe56800"),
    "an endless varint": (OFFSET_KEY_BYTES, "0004ffffffffffffffffffffffff" + "ff" * 6),
    "a group that ends early": ("0002000167", GROUP_BY_VERSION[3][0][:-2]),
    "more members than bytes": ("0002000167", "0003000000000000ffffffffffffffffffffffff7fffffff"),
}


@pytest.mark.parametrize(("key", "value"), CORRUPT.values(), ids=CORRUPT)
def test_bytes_that_do_not_follow_the_schema_are_corrupt(key, value):
    with pytest.raises(CorruptRecordError):
        decode(unhex(key), unhex(value))


@given(key=st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
def test_any_bytes_are_a_record_or_none_or_corrupt(key, value):
    """Nothing but CorruptRecordError is ever raised."""
    try:
        decode(key, value)
    except CorruptRecordError:
        pass


@given(data=st.data(), at=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_damaged_record_is_a_record_or_none_or_corrupt(data, at, byte):
    key, value, _ = data.draw(st.sampled_from([w for w in WRITTEN_BY_KAFKA.values() if w[1]]))
    damaged = bytearray(unhex(value))
    damaged[at % len(damaged)] = byte
    for cut in (damaged, damaged[: at % len(damaged)]):
        try:
            decode(unhex(key), bytes(cut))
        except CorruptRecordError:
            pass


# --- round trips ---

texts = st.text(st.characters(codec="utf-8"), max_size=20)
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
offset_values = st.builds(
    OffsetCommitValue, int64s, int32s, texts, int64s, st.just(-1), st.none() | st.uuids()
)
expiring_values = st.builds(
    OffsetCommitValue, int64s, st.just(-1), texts, int64s, int64s, st.none()
)
members = st.builds(
    MemberMetadata,
    texts,
    st.none() | texts,
    texts,
    texts,
    int32s,
    int32s,
    st.binary(max_size=9),
    st.binary(max_size=9),
)
group_values = st.builds(
    GroupMetadataValue,
    texts,
    int32s,
    st.none() | texts,
    st.none() | texts,
    int64s,
    st.lists(members, max_size=3).map(tuple),
)
records = st.builds(
    OffsetCommitRecord,
    st.builds(OffsetCommitKey, texts, texts, int32s),
    st.none() | offset_values | expiring_values,
) | st.builds(GroupMetadataRecord, st.builds(GroupMetadataKey, texts), st.none() | group_values)


@settings(max_examples=examples(200))
@given(record=records)
def test_encoded_group_records_decode_to_the_same(record):
    assert decode(*encode(record)) == record


@given(record=records)
def test_no_prefix_of_a_value_is_a_value(record):
    key, value = encode(record)
    for length in range(len(value or b"")):
        with pytest.raises(CorruptRecordError):
            decode(key, value[:length])


# --- what can be written at all ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("x" * 32_730, False),
        ("x" * 32_731, True),
        ("é" * 16_365, False),
        ("é" * 16_366, True),
    ],
    ids=["empty", "limit", "beyond", "limit in bytes", "beyond in bytes"],
)
def test_a_string_is_too_long_where_a_member_id_made_of_it_would_be(text, expected):
    member_id = f"{text}-{UUID(int=0)}"
    assert too_long("short", text, spare=37) is expected
    assert too_long(member_id) is expected
    assert (len(member_id.encode()) > 32_767) is expected
