"""Group records become rows, whatever their bytes are."""

import pyarrow as pa
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


def test_other_protocol_types_keep_their_bytes_without_an_error():
    record = decode_group_record(*classic(1, "a", subscription=b"?", protocol_type="connect"))
    assert (record.error, record.keeps_raw) == (None, True)
    assert record.content["members"][0]["subscription"] is None


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60), st.integers(0, 25))
def test_no_bytes_raise(rest, value, type_):
    fold = GroupFold(log_partition=0, commits=Commits())
    for key in (rest, type_.to_bytes(2, "big") + b"\0\1g" + rest):
        fold.apply(key, value, LogPosition(0, 0))
    batch = pa.RecordBatch.from_pylist(fold.rows["groups"], schema=schema.GROUPS)
    assert batch.num_rows == 2
