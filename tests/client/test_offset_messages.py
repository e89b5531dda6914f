"""Parts of OffsetCommit and OffsetFetch that a group's member and an Admin share."""

from types import SimpleNamespace
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.offset_messages import (
    NO_OFFSET,
    fetched_offset,
    names_by_id,
    topic_name,
    topics_to_commit,
)
from kohort.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def test_partitions_of_a_topic_share_an_entry_of_the_commit() -> None:
    offsets = {tp: OffsetAndMetadata(offset=tp.partition, leader_epoch=4) for tp in (B0, A1, A0)}
    topics = topics_to_commit(offsets, {A0: ID, A1: ID})
    entries = [
        (
            topic["name"],
            topic["topic_id"],
            [partition["partition_index"] for partition in topic["partitions"]],
        )
        for topic in topics
    ]
    assert entries == [("a", ID, [0, 1]), ("b", None, [0])]
    assert topics[0]["partitions"][1] == {
        "partition_index": 1,
        "committed_offset": 1,
        "committed_leader_epoch": 4,
        "committed_metadata": "",
    }


def test_partitions_with_different_topic_ids_have_an_entry_each() -> None:
    offsets = {tp: OffsetAndMetadata(offset=7) for tp in (A0, A1)}
    topics = topics_to_commit(offsets, {A0: OTHER_ID, A1: ID})
    assert [topic["topic_id"] for topic in topics] == [ID, OTHER_ID]


def test_a_topic_id_outside_the_request_has_no_name() -> None:
    names = names_by_id((A0, B0), {A0: ID})
    assert topic_name(SimpleNamespace(topic_id=ID), names) == "a"
    assert topic_name(SimpleNamespace(topic_id=OTHER_ID), names) == ""
    assert topic_name(SimpleNamespace(name="b"), names) == "b"


def test_a_partition_without_a_commit_has_no_fetched_offset() -> None:
    fetched = SimpleNamespace(committed_offset=7, committed_leader_epoch=2, metadata=None)
    assert fetched_offset(fetched) == OffsetAndMetadata(offset=7, leader_epoch=2)
    assert fetched_offset(SimpleNamespace(committed_offset=NO_OFFSET, metadata="")) is None
