"""OffsetCommit and OffsetFetch of a member, as kio's messages.

OffsetCommit v2-10: v2-4 have a retention, v6 a leader epoch, v7 the instance id. v10 names topics
by id, so a commit for a topic that was deleted and recreated is refused (UNKNOWN_TOPIC_ID).
OffsetFetch v1-10: v2 has an error of the whole group, v7 waits for transactions, v8 takes several
groups, v10 has topic ids. The ids are those of the member's assignment; if one is unknown, v9 is
the highest.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from kohort.client.config import GroupConfig
from kohort.client.net import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.offset_messages import (
    GROUP_LISTS_SINCE,
    MAX_VERSION_BY_NAME,
    error_codes,
    fetched_offset,
    names_by_id,
    topic_name,
    topics_to_commit,
)
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

MEMBER_EPOCHS_SINCE: Final = 9
"""Lowest version of both requests that a member of the consumer protocol may use (KIP-848)."""
RETENTION_UNTIL: Final = 4
"""Highest version of OffsetCommit with a retention."""

TopicIds = Mapping[str, UUID]


async def commit_offsets(
    connection: Connection,
    config: GroupConfig,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int,
    member_id: str,
    topic_ids: TopicIds,
) -> dict[TopicPartition, ErrorCode]:
    """Commit offsets of a member; returns the error code of each partition. Raises KohortError."""
    ids = _ids(offsets, topic_ids)
    names = names_by_id(offsets, ids)
    # Passed only if configured: no current version has the field, and kio would load the schemas of
    # all versions to find one that does.
    retention = {"retention_time_ms": config.retention_ms} if config.retention_ms >= 0 else {}
    response = await connection.send(
        "offset_commit",
        min_version=_min_version(config),
        max_version=_version(config, offsets, topic_ids),
        group_id=config.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=config.instance_id,
        topics=topics_to_commit(offsets, ids),
        **retention,
    )
    return error_codes(response.topics, names)


async def fetch_offsets(
    connection: Connection,
    config: GroupConfig,
    partitions: Iterable[TopicPartition],
    topic_ids: TopicIds,
    *,
    member_id: str | None = None,
    member_epoch: int = -1,
    stable: bool = True,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Committed offsets of the group, None for nothing; does not wait for transactions.

    With a member of the consumer protocol, it is refused as soon as the coordinator does not know
    the member at that epoch (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH).
    With `stable`, a partition in an open transaction is an error (UNSTABLE_OFFSET_COMMIT). Raises
    KafkaError for the first error of a partition or the group. A partition that the response lacks
    is an error too: it must not be taken for "nothing is committed". Raises other KohortErrors.
    """
    requested = tuple(partitions)
    by_topic, names = _by_topic(requested), names_by_id(requested, _ids(requested, topic_ids))
    topics = [
        {
            "name": topic,
            "topic_id": topic_ids.get(topic),
            "partition_indexes": [partition.partition for partition in of_topic],
        }
        for topic, of_topic in by_topic
    ]
    # Each version is given its own fields only: kio would load other versions' schemas to find a
    # field there.
    of_one_group = {"group_id": config.group_id, "topics": topics}
    of_several = {
        "groups": [{**of_one_group, "member_id": member_id, "member_epoch": member_epoch}]
    }
    has_ids = all(topic_ids.get(topic) for topic, _ in by_topic)
    response = await connection.send(
        "offset_fetch",
        min_version=_min_version(config),
        max_version=None if has_ids else MAX_VERSION_BY_NAME,
        require_stable=stable,
        **(
            of_several
            if (connection.version("offset_fetch") or 0) >= GROUP_LISTS_SINCE
            else of_one_group
        ),
    )
    committed = _fetched(response, names)
    for partition in requested:
        if partition not in committed:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                f"the response to OffsetFetch leaves out {partition}",
            )
    return committed


def _fetched(
    response: Any, names: Mapping[UUID, str]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    group = response.groups[0] if hasattr(response, "groups") else response
    _raise_for(getattr(group, "error_code", ErrorCode.none), "OffsetFetch")
    committed: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for topic in group.topics:
        for response_partition in topic.partitions:
            partition = TopicPartition(topic_name(topic, names), response_partition.partition_index)
            _raise_for(response_partition.error_code, f"OffsetFetch of {partition}")
            committed[partition] = fetched_offset(response_partition)
    return committed


def _version(
    config: GroupConfig, offsets: Iterable[TopicPartition], topic_ids: TopicIds
) -> int | None:
    if config.retention_ms >= 0:
        return RETENTION_UNTIL
    return (
        None
        if all(topic_ids.get(partition.topic) for partition in offsets)
        else MAX_VERSION_BY_NAME
    )


def _min_version(config: GroupConfig) -> int:
    return MEMBER_EPOCHS_SINCE if config.protocol == "consumer" else 0


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    return [
        (topic, list(together))
        for topic, together in groupby(sorted(partitions), attrgetter("topic"))
    ]


def _ids(partitions: Iterable[TopicPartition], topic_ids: TopicIds) -> dict[TopicPartition, UUID]:
    """Topic ids by partition, without partitions whose topic has no id."""
    return {tp: topic_ids[tp.topic] for tp in partitions if tp.topic in topic_ids}


def _raise_for(code: ErrorCode, subject: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, subject)
