"""Group records become rows, whatever their bytes are."""

from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.group_logs import Commits
from kohort.coordinator import records
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from kohort.history import schema
from kohort.history.group_fold import GroupFold
from kohort.history.group_records import decode_group_record
from kohort.history.interface import LogPosition
from kohort.protocol.packing import (
    pack_bytes,
    pack_compact_string,
    pack_int16,
    pack_int32,
    pack_int64,
    pack_string,
)
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicPartition


def classic(generation, *member_ids, subscription=None, assignment=None, protocol_type="consumer"):
    subscription = subscription or encode_subscription(Subscription(topics=("t",)))
    assignment = assignment or encode_assignment(
        Assignment(partitions=(TopicPartition("t", 0), TopicPartition("t", 1)))
    )
    members = tuple(
        MemberMetadata(each, None, "client", "/host", 60_000, 10_000, subscription, assignment)
        for each in member_ids
    )
    value = GroupMetadataValue(protocol_type, generation, "range", "a", 5, members)
    return records.encode(GroupMetadataRecord(GroupMetadataKey("g"), value))


def test_a_classic_group_has_its_members_with_their_subscriptions_and_assignments():
    record = decode_group_record(*classic(3, "a", "b"))
    assert (record.kind, record.group, record.version, record.error) == ("classic", "g", 3, None)
    content = record.content
    assert (content["generation"], content["state_time"]) == (3, 5_000)
    first, second = content["members"]
    assert (first["member_id"], second["member_id"]) == ("a", "b")
    assert first["subscription"]["topics"] == ["t"]
    assert [each["partition"] for each in first["assignment"]["partitions"]] == [0, 1]


def test_a_broken_subscription_leaves_the_record():
    record = decode_group_record(*classic(1, "a", subscription=b"\0\1\0\0\0\7"))
    assert record.is_decoded
    assert record.keeps_raw
    assert "subscription of member a" in record.error
    assert record.content["members"][0]["subscription"] is None
    assert record.content["members"][0]["assignment"] is not None


def test_a_row_names_the_first_errors_of_many_members():
    record = decode_group_record(*classic(1, *"abcdef", subscription=b"?"))
    assert record.error.startswith("subscription of member a: ")
    assert record.error.endswith("; and 3 more")


def test_other_protocol_types_keep_their_bytes_without_an_error():
    record = decode_group_record(*classic(1, "a", subscription=b"?", protocol_type="connect"))
    assert (record.error, record.keeps_raw) == (None, True)
    assert record.content["members"][0]["subscription"] is None


def raw_group(version, member):
    """A value with two members of this layout."""
    state_time = pack_int64(7) if version >= 2 else b""
    head = pack_string("consumer") + pack_int32(4) + pack_string("range") + pack_string("anna")
    members = member("anna") + member("bert")
    return pack_int16(version) + head + state_time + pack_int32(2) + members


def raw_member(version, *, redpanda=False):
    def pack(member_id):
        return b"".join((
            pack_int16(version) if redpanda else b"",
            pack_string(member_id),
            pack_string("instance") if version >= 3 else b"",
            pack_string("client") + pack_string("/host"),
            pack_int32(60_000) if version >= 1 else b"",
            pack_int32(10_000),
            pack_bytes(encode_subscription(Subscription(topics=("t",)))),
            pack_bytes(encode_assignment(Assignment(partitions=(TopicPartition("t", 0),)))),
        ))  # fmt: skip

    return pack


GROUP_KEY = b"\0\2\0\1g"


@pytest.mark.parametrize("redpanda", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_of_a_classic_group_is_read_and_redpandas_layout(version, redpanda):
    value = raw_group(version, raw_member(version, redpanda=redpanda))
    record = decode_group_record(GROUP_KEY, value)
    assert (record.error, record.version) == (None, version)
    assert record.content["state_time"] == (7_000 if version >= 2 else None)
    first, second = record.content["members"]
    assert (first["member_id"], second["member_id"]) == ("anna", "bert")
    assert first["rebalance_timeout_ms"] == (60_000 if version >= 1 else 10_000)
    assert first["instance_id"] == ("instance" if version >= 3 else None)
    assert second["assignment"]["partitions"] == [{"topic": "t", "partition": 0}]


def test_the_flexible_version_of_a_classic_group_is_read():
    def compact(text):
        return pack_compact_string(text)

    member = (
        compact("a") + compact(None) + compact("client") + compact("/host")
        + pack_int32(60_000) + pack_int32(10_000) + b"\1" + b"\1" + b"\0"
    )  # fmt: skip
    head = compact("consumer") + pack_int32(4) + compact("range") + compact("a") + pack_int64(7)
    value = pack_int16(4) + head + b"\2" + member + b"\0"
    record = decode_group_record(GROUP_KEY, value)
    assert (record.error, record.content["members"][0]["member_id"]) == (None, "a")
    assert decode_group_record(GROUP_KEY, value + b"!").error is not None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (GROUP_KEY, b"\0\5", "version 5 of the value is unknown (0-4)"),
        (GROUP_KEY, raw_group(3, raw_member(3)) + b"!", "not a group of Kafka (1 bytes remain)"),
        (GROUP_KEY, raw_group(3, raw_member(3))[:-1], "nor of Redpanda"),
        (b"\0\3\0\1g", b"\0\1", "version 1 of the value is unknown (0)"),
        (b"\0\x63\0\1g", b"", "key type 99 is unknown"),
        (b"\0\5\0\1g", None, "ends before its last field"),
        (b"", b"", "ends before its last field"),
    ],
)
def test_a_record_that_cannot_be_read_has_an_error_and_its_bytes(key, value, reason):
    record = decode_group_record(key, value)
    assert reason in record.error
    assert (record.is_decoded, record.keeps_raw, record.content) == (False, True, None)
    fold = GroupFold(log_partition=0, commits=Commits())
    fold.apply(key, value, LogPosition(0, 0))
    (row,) = fold.rows["groups"]
    assert (row["raw_key"], row["raw_value"]) == (key, value)


def test_the_tombstone_of_an_old_redpanda_has_a_length_before_its_key():
    record = decode_group_record(len(GROUP_KEY).to_bytes(4, "little") + GROUP_KEY, None)
    assert (record.group, record.is_tombstone, record.error) == ("g", True, None)


def test_a_higher_version_of_a_subscription_is_read_as_the_highest_known_one():
    blob = b"\0\7" + encode_subscription(Subscription(topics=("t",), rack="r"))[2:] + b"more"
    (member,) = decode_group_record(*classic(1, "a", subscription=blob)).content["members"]
    assert (member["subscription"]["version"], member["subscription"]["rack"]) == (7, "r")


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60), st.integers(0, 25))
def test_no_bytes_raise(rest, value, type_):
    fold = GroupFold(log_partition=0, commits=Commits())
    for key in (rest, type_.to_bytes(2, "big") + b"\0\1g" + rest):
        fold.apply(key, value, LogPosition(0, 0))
    batch = pa.RecordBatch.from_pylist(fold.rows["groups"], schema=schema.GROUPS)
    assert batch.num_rows == 2


def test_a_name_that_no_topic_has_names_none():
    """The keys of commits, which the fold looks up by the name, hold 32,767 bytes of it."""
    for size, topics in ((249, 1), (250, 0), (40_000, 0)):
        topic = b"\2" + UUID(int=1).bytes + pack_compact_string("x" * size)
        value = pack_int16(0) + b"\1" + topic + b"\1\0" + b"\1\0"
        record = decode_group_record(pack_int16(15) + pack_string("g"), value)
        assert record.error is None
        assert len(record.topics) == topics
