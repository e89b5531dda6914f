"""Committed offsets from outside the group: OffsetFetch, OffsetCommit and OffsetDelete.

A commit from outside has no member id and generation -1. Only a group without members accepts it
(else UNKNOWN_MEMBER_ID). Requests have topic names: OffsetFetch and OffsetCommit are sent below
v10, as by Java's Admin, unless the caller passes the ids of the topics.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.client.admin.coordinator_requests import Coordinator, refusal, send_to_coordinators
from kohort.client.cluster import Cluster, by_partition
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.offset_messages import (
    GROUP_LISTS_SINCE,
    MAX_VERSION_BY_NAME,
    error_codes,
    fetched_offset,
    names_by_id,
    topics_to_commit,
)
from kohort.errors import ErrorCode, KafkaError, KohortError, unless_error
from kohort.types import GroupId, TopicPartition

_REMEDY: Final = "fetch the committed offsets"

Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]
PartitionErrors: TypeAlias = dict[TopicPartition, KafkaError | None]
"""None: success."""


# --- fetch


async def committed(
    cluster: Cluster,
    groups: Iterable[GroupId],
    partitions: Collection[TopicPartition] | None,
    *,
    require_stable: bool,
    timeout_ms: int,
) -> dict[GroupId, Offsets | KohortError]:
    """The committed offsets of each group, in these partitions or in all (None).

    Partitions without a commit are omitted. With `require_stable`, open transactions with offsets
    of the group are awaited (UNSTABLE_OFFSET_COMMIT is retried).
    """
    send = partial(
        _fetch,
        topics=None if partitions is None else _by_topic(partitions),
        require_stable=require_stable,
    )
    return await send_to_coordinators(cluster, groups, send, timeout_ms=timeout_ms)


async def _fetch(
    coordinator: Coordinator,
    groups: list[GroupId],
    topics: list[dict[str, Any]] | None,
    require_stable: bool,
) -> dict[GroupId, Offsets | KohortError]:
    version = coordinator.connection.version("offset_fetch")
    send = partial(
        coordinator.connection.send,
        "offset_fetch",
        max_version=MAX_VERSION_BY_NAME,
        require_stable=require_stable,
    )
    if version is None or version >= GROUP_LISTS_SINCE:
        response = await send(groups=[{"group_id": group, "topics": topics} for group in groups])
        return {group.group_id: _fetched(group) for group in response.groups}
    return {group: _fetched(await send(group_id=group, topics=topics)) for group in groups}


def _fetched(group: Any) -> Offsets | KafkaError:
    error = refusal(getattr(group, "error_code", ErrorCode.none))
    offsets: Offsets = {}
    for topic in group.topics:
        for partition in topic.partitions:
            error = error or refusal(
                partition.error_code, f"{topic.name}-{partition.partition_index}"
            )
            if (offset := fetched_offset(partition)) is not None:
                offsets[TopicPartition(topic.name, partition.partition_index)] = offset
    return error or offsets


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"name": topic, "partition_indexes": [tp.partition for tp in topic_partitions]}
        for topic, topic_partitions in groupby(sorted(partitions), attrgetter("topic"))
    ]


# --- commit


async def commit(
    cluster: Cluster,
    group: GroupId,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, UUID],
    *,
    timeout_ms: int,
) -> PartitionErrors:
    """Commit offsets; the error of each partition, or None.

    Raises KohortError if the whole group is refused or unreachable.
    """
    responses = await send_to_coordinators(
        cluster,
        [group],
        partial(_commit, offsets=offsets, topic_ids=topic_ids),
        timeout_ms=timeout_ms,
        remedy=_REMEDY,
    )
    return unless_error(responses[group])


async def _commit(
    coordinator: Coordinator,
    groups: list[GroupId],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, UUID],
) -> dict[GroupId, PartitionErrors | KohortError]:
    """Commit with ids and with names, in one request each."""
    by_id = {tp: offset for tp, offset in offsets.items() if tp in topic_ids}
    by_name = {tp: offset for tp, offset in offsets.items() if tp not in topic_ids}
    errors: PartitionErrors = {}
    for subset in filter(None, (by_id, by_name)):
        outcome = await _commit_once(coordinator, groups[0], subset, topic_ids)
        if isinstance(outcome, KafkaError):
            return {groups[0]: outcome}
        errors |= outcome
    return {groups[0]: errors}


async def _commit_once(
    coordinator: Coordinator,
    group: GroupId,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, UUID],
) -> PartitionErrors | KafkaError:
    """Commit in one request; all partitions have an id, or none has."""
    names = names_by_id(offsets, topic_ids)
    response = await coordinator.connection.send(
        "offset_commit",
        max_version=None if names else MAX_VERSION_BY_NAME,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=topics_to_commit(offsets, topic_ids),
    )
    return _partition_errors(response.topics, names)


def _partition_errors(
    topics: Iterable[Any], names: Mapping[UUID, str]
) -> PartitionErrors | KafkaError:
    """The error of each partition, or one error of the whole group.

    OffsetCommit has no error of the group: the coordinator repeats it in every partition.
    """
    errors_by_partition: PartitionErrors = {
        tp: refusal(code) for tp, code in error_codes(topics, names).items()
    }
    errors = list(errors_by_partition.values())
    codes = {error.code for error in errors if error is not None}
    group_error = errors[0] if errors and None not in errors and len(codes) == 1 else None
    return (
        errors_by_partition
        if group_error is None or group_error.code not in _GROUP_ERRORS
        else group_error
    )


_GROUP_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.group_authorization_failed,
        ErrorCode.invalid_group_id,
        ErrorCode.group_id_not_found,
        ErrorCode.fenced_instance_id,
        ErrorCode.stale_member_epoch,
    }
)


# --- delete


async def delete_offsets(
    cluster: Cluster, group: GroupId, partitions: Collection[TopicPartition], *, timeout_ms: int
) -> PartitionErrors:
    """Delete commits; GROUP_SUBSCRIBED_TO_TOPIC for partitions that members read.

    Raises KohortError as `commit`.
    """
    topics = [
        {
            "name": topic["name"],
            "partitions": [{"partition_index": index} for index in topic["partition_indexes"]],
        }
        for topic in _by_topic(partitions)
    ]
    responses = await send_to_coordinators(
        cluster,
        [group],
        partial(_delete, topics=topics),
        timeout_ms=timeout_ms,
        remedy=_REMEDY,
    )
    return unless_error(responses[group])


async def _delete(
    coordinator: Coordinator, groups: list[GroupId], topics: list[dict[str, Any]]
) -> dict[GroupId, PartitionErrors | KohortError]:
    response = await coordinator.connection.send("offset_delete", group_id=groups[0], topics=topics)
    if error := refusal(response.error_code, f"group {groups[0]}"):
        return {groups[0]: error}
    errors_by_partition: PartitionErrors = {
        tp: refusal(partition.error_code) for tp, partition in by_partition(response.topics).items()
    }
    return {groups[0]: errors_by_partition}
