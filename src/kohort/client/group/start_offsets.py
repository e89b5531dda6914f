"""Finds the start offset of each partition: the committed offset, else by `start_offset`.

Under `start_offset="last"` a new partition starts at its first record: records from before the
group discovered it must not be skipped (KIP-1327). New is a partition that did not exist when the
group began. In Kafka 4.4 the coordinator says so to members of the consumer protocol. Here members
know it under both protocols, on any broker: each knows how many partitions its topics had when it
began, and puts that number into the metadata of its commits. Members that begin later take the
number from there.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from kohort.client.cluster import EARLIEST, LATEST, Cluster, Isolation, Offset
from kohort.client.config import GroupConfig
from kohort.client.group.commits import PURPOSE, Identity
from kohort.client.group.offset_requests import fetch_offsets
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.requests import coordinator
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.group_errors import GroupError, moves_coordinator
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KafkaError, KohortError, unless_error
from kohort.types import TopicPartition

NO_OFFSET: Final = -1
_NO_LIMIT: Final = 2**31
_NAMED: Final = {"first": EARLIEST, "last": LATEST}
LIST_TIMEOUT_MS: Final = 5_000
"""Time limit of one attempt. The caller retries, and the topics are checked meanwhile."""


_INITIAL: Final = "partitions at the start of the group: {}"
_INITIAL_PATTERN: Final = re.compile(re.escape(_INITIAL).replace(r"\{\}", "([0-9]{1,9})"))


class ListOffsets(Protocol):
    """The signature of `kohort.client.cluster.offsets`."""

    async def __call__(
        self,
        cluster: Cluster,
        queries: Mapping[TopicPartition, int],
        isolation: Isolation = "read_uncommitted",
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Offset | KohortError]: ...


async def find_start_offsets(
    cluster: Cluster,
    config: GroupConfig,
    owned_partitions: Iterable[OwnedPartition],
    watch: TopicWatch,
    list_offsets: ListOffsets,
    identity: Identity | None,
) -> None:
    """Fill in `committed` and `start` of the partitions that have none.

    `identity` is that of a member of the consumer protocol. Raises KohortError, retriable or not.
    """
    unknown = {owned.partition: owned for owned in owned_partitions if owned.start is None}
    if not unknown:
        return
    committed = await _committed(cluster, config, unknown, watch, identity)
    without = [partition for partition in unknown if committed[partition] is None]
    initial: dict[str, int] = {}
    if config.start == "last":
        siblings = _siblings(without, watch) - unknown.keys()
        others = await _committed(cluster, config, siblings, watch, identity, stable=False)
        initial = _initial_counts(unknown, {**committed, **others}, watch)
    new = [
        partition
        for partition in without
        if partition.partition >= initial.get(partition.topic, _NO_LIMIT)
    ]
    configured = await _configured(cluster, config, without, new, list_offsets)
    for partition, owned in unknown.items():
        owned.committed = offset = committed[partition]
        owned.start = configured[partition] if offset is None else offset.offset
        if partition.topic in initial:
            owned.metadata = _INITIAL.format(initial[partition.topic])


def _siblings(partitions: Iterable[TopicPartition], watch: TopicWatch) -> set[TopicPartition]:
    """All partitions of the topics of these."""
    topics = {partition.topic for partition in partitions}
    return {
        TopicPartition(topic, index)
        for topic in topics
        for index in range(watch.counts.get(topic, 0))
    }


def _initial_counts(
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    watch: TopicWatch,
) -> dict[str, int]:
    """Partitions of each topic when the group began: as committed, else as this member knows."""
    counts: dict[str, int] = {}
    for partition, offset in committed.items():
        if offset is not None and (match := _INITIAL_PATTERN.fullmatch(offset.metadata or "")):
            count = int(match[1])
            counts[partition.topic] = min(count, counts.get(partition.topic, count))
    topics = {partition.topic for partition in partitions}
    return {topic: counts.get(topic, watch.initial_count(topic)) for topic in topics}


async def _committed(
    cluster: Cluster,
    config: GroupConfig,
    partitions: Collection[TopicPartition],
    watch: TopicWatch,
    identity: Identity | None,
    *,
    stable: bool = True,
) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
    if not partitions:
        return {}
    try:
        connection = await coordinator(cluster, config.group_id, PURPOSE)
        if identity is None:
            return await fetch_offsets(connection, config, partitions, watch.ids, stable=stable)
        return await fetch_offsets(
            connection,
            config,
            partitions,
            watch.ids,
            stable=stable,
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
    new: list[TopicPartition],
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

    async def listed(queries: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not queries:
            return {}
        outcomes = await list_offsets(
            cluster, queries, config.isolation_level, timeout_ms=LIST_TIMEOUT_MS
        )
        return {partition: unless_error(offset).offset for partition, offset in outcomes.items()}

    when = config.start if isinstance(config.start, int) else _NAMED[config.start]
    offsets = await listed(dict.fromkeys(partitions, when) | dict.fromkeys(new, EARLIEST))
    behind = [partition for partition, offset in offsets.items() if offset == NO_OFFSET]
    # No record is as recent as the timestamp: the group starts with the records to come.
    return offsets | await listed(dict.fromkeys(behind, LATEST))
