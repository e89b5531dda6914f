"""Finds where a member starts in each partition: the committed offset, else `start_offset`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kohort.client.cluster import EARLIEST, LATEST, Cluster, Isolation, Offset
from kohort.client.group.commits import PURPOSE, Identity
from kohort.client.group.offset_requests import TopicIds, fetch_offsets
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.requests import coordinator
from kohort.client.group_config import GroupConfig
from kohort.client.group_errors import GroupError, moves_coordinator
from kohort.errors import KafkaError, KohortError, unless_error
from kohort.types import TopicPartition

NO_OFFSET: Final = -1
_NAMED: Final = {"first": EARLIEST, "last": LATEST}
LIST_WITHIN_MS: Final = 5_000
"""Time limit of one attempt; the caller tries again, and the topics are checked meanwhile."""


class ListOffsets(Protocol):
    """The signature of `kohort.client.cluster.offsets`."""

    async def __call__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, int],
        isolation: Isolation = "read_uncommitted",
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Offset | KohortError]: ...


async def find_start_offsets(
    cluster: Cluster,
    config: GroupConfig,
    owned_partitions: Iterable[OwnedPartition],
    topic_ids: TopicIds,
    list_offsets: ListOffsets,
    identity: Identity | None,
) -> None:
    """Fill in `committed` and `start` of the partitions that have none.

    `identity` is that of a member of the consumer protocol. Raises KohortError, retriable or not.
    """
    unknown = {owned.partition: owned for owned in owned_partitions if owned.start is None}
    if not unknown:
        return
    committed = await _committed(cluster, config, unknown, topic_ids, identity)
    for partition, offset in committed.items():
        unknown[partition].committed = offset
        if offset is not None:
            unknown[partition].start = offset.offset
    without = [partition for partition, owned in unknown.items() if owned.start is None]
    configured = await _configured(cluster, config, without, list_offsets)
    for partition, start in configured.items():
        unknown[partition].start = start


async def _committed(
    cluster: Cluster,
    config: GroupConfig,
    partitions: Iterable[TopicPartition],
    topic_ids: TopicIds,
    identity: Identity | None,
) -> Mapping[TopicPartition, Any]:
    try:
        connection = await coordinator(cluster, config.group_id, PURPOSE)
        if identity is None:
            return await fetch_offsets(connection, config, partitions, topic_ids)
        return await fetch_offsets(
            connection,
            config,
            partitions,
            topic_ids,
            member_id=identity.member_id,
            member_epoch=identity.generation,
        )
    except KohortError as error:
        if not isinstance(error, KafkaError) or moves_coordinator(error.code):
            cluster.coordinator_moved(config.group_id)
        raise


async def _configured(
    cluster: Cluster,
    config: GroupConfig,
    partitions: list[TopicPartition],
    list_offsets: ListOffsets,
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    if config.start == "none":
        raise GroupError(
            f"group {config.group_id} has committed no offset for "
            f"{', '.join(map(str, partitions))}, and start_offset "
            "is none: commit offsets first (kohort groups reset), or choose where to start"
        )

    async def listed(wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        found = await list_offsets(
            cluster, wanted, config.isolation_level, timeout_ms=LIST_WITHIN_MS
        )
        return {partition: unless_error(offset).offset for partition, offset in found.items()}

    when = config.start if isinstance(config.start, int) else _NAMED[config.start]
    found = await listed(dict.fromkeys(partitions, when))
    behind = [partition for partition, offset in found.items() if offset == NO_OFFSET]
    # No record is as recent as the timestamp: the group starts with the records to come.
    return found | await listed(dict.fromkeys(behind, LATEST))
