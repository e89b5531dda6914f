"""Parts of OffsetCommit and OffsetFetch that a group's member and an Admin share.

v10 of both requests has topic ids in place of topic names (KIP-848).
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata
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
    """The topics of an OffsetCommit request, with their ids as far as `topic_ids` has them."""
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


def fetched_offset(partition: Any) -> OffsetAndMetadata | None:
    """The committed offset in a partition of an OffsetFetch response; None without a commit."""
    if partition.committed_offset == NO_OFFSET:
        return None
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=getattr(partition, "committed_leader_epoch", -1),
        metadata=partition.metadata or "",
    )
