"""Where a member begins in each partition: at the committed offset, else where the configuration
says.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kohort.client.cluster import EARLIEST, LATEST, Cluster, list_offsets
from kohort.client.group.commits import PURPOSE
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
"""How long one try may take: who asks tries again, and looks at the topics meanwhile."""


async def find_start_offsets(
    cluster: Cluster,
    config: GroupConfig,
    owned_partitions: Iterable[OwnedPartition],
    topic_ids: TopicIds,
) -> None:
    """Fill in `committed` and `start` of holdings that have none. Raises KohortError; what passes
    too.
    """
    unknown = {owned.partition: owned for owned in owned_partitions if owned.start is None}
    if not unknown:
        return
    committed = await _committed(cluster, config, unknown, topic_ids)
    for partition, offset in committed.items():
        unknown[partition].committed = offset
        if offset is not None:
            unknown[partition].start = offset.offset
    without = [partition for partition, owned in unknown.items() if owned.start is None]
    for partition, start in (await _configured(cluster, config, without)).items():
        unknown[partition].start = start


async def _committed(
    cluster: Cluster, config: GroupConfig, partitions: Iterable[TopicPartition], topic_ids: TopicIds
) -> Mapping[TopicPartition, Any]:
    try:
        connection = await coordinator(cluster, config.group_id, PURPOSE)
        return await fetch_offsets(connection, config, partitions, topic_ids)
    except KohortError as error:
        if not isinstance(error, KafkaError) or moves_coordinator(error.code):
            cluster.coordinator_moved(config.group_id)
        raise


async def _configured(
    cluster: Cluster, config: GroupConfig, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    if config.start == "none":
        raise GroupError(
            f"group {config.group_id} has committed no offset for "
            f"{', '.join(map(str, partitions))}, and start_offset "
            "is none: commit offsets first (kohort groups reset), or choose where to start"
        )
    asked = config.start if isinstance(config.start, int) else _NAMED[config.start]
    found = await _listed(cluster, config, dict.fromkeys(partitions, asked))
    behind = [partition for partition, offset in found.items() if offset == NO_OFFSET]
    # No record is as young as the timestamp: it is the next ones that are wanted.
    return found | await _listed(cluster, config, dict.fromkeys(behind, LATEST))


async def _listed(
    cluster: Cluster, config: GroupConfig, asked: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if not asked:
        return {}
    responses = await list_offsets(
        cluster, asked, config.isolation_level, timeout_ms=LIST_WITHIN_MS
    )
    return {partition: unless_error(response).offset for partition, response in responses.items()}
