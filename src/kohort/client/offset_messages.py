"""Parts of OffsetCommit, TxnOffsetCommit and OffsetFetch that several clients share.

Topic ids are in place of topic names since OffsetCommit and OffsetFetch v10 (KIP-848), and since
TxnOffsetCommit v6 (KIP-1319).
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

MAX_VERSION_BY_NAME: Final = 9
"""Highest version of OffsetFetch and OffsetCommit with topic names."""
GROUP_LISTS_SINCE: Final = 8
"""First version of OffsetFetch with many groups (KIP-709)."""
NO_OFFSET: Final = -1
"""The offset of a partition without a commit."""


def topics_to_commit(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[TopicPartition, UUID]
) -> list[dict[str, Any]]:
    """The topics of a commit request, with their ids as far as `topic_ids` has them."""
    return [
        {
            "name": topic,
            "topic_id": topic_id,
            "partitions": [_to_commit(tp, offsets[tp]) for tp in partitions],
        }
        for (topic, topic_id), partitions in groupby(
            sorted(offsets, key=lambda tp: (tp.topic, str(topic_ids.get(tp)), tp.partition)),
            lambda tp: (tp.topic, topic_ids.get(tp)),
        )
    ]


def _to_commit(tp: TopicPartition, offset: OffsetAndMetadata) -> dict[str, object]:
    return {
        "partition_index": tp.partition,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "committed_metadata": offset.metadata,
    }


def names_by_id(
    partitions: Iterable[TopicPartition], topic_ids: Mapping[TopicPartition, UUID]
) -> dict[UUID, str]:
    """Topic names by the ids in a request; the topics may change until the response arrives."""
    return {topic_ids[tp]: tp.topic for tp in partitions if tp in topic_ids}


def topic_name(topic: Any, names: Mapping[UUID, str]) -> str:
    """Name of a topic in a response; "" for a topic that was not requested."""
    return str(topic.name) if hasattr(topic, "name") else names.get(topic.topic_id, "")


def error_codes(
    topics: Iterable[Any], names: Mapping[UUID, str]
) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition in a response to OffsetCommit or TxnOffsetCommit."""
    return {
        TopicPartition(topic_name(topic, names), partition.partition_index): partition.error_code
        for topic in topics
        for partition in topic.partitions
    }


def fetched_offset(partition: Any) -> OffsetAndMetadata | None:
    """The committed offset in a partition of an OffsetFetch response; None without a commit."""
    if partition.committed_offset == NO_OFFSET:
        return None
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=getattr(partition, "committed_leader_epoch", -1),
        metadata=partition.metadata or "",
    )
