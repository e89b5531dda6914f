"""Queries offsets by time: first, last, first since a timestamp (Kafka's ListOffsets, v1-v11)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kohort.client.cluster.cluster import Cluster, Leader
from kohort.client.cluster.leader_requests import by_partition, partition_error, send_to_leaders
from kohort.errors import KohortError
from kohort.types import TopicPartition

Isolation = Literal["read_uncommitted", "read_committed"]

LATEST: Final = -1
"""The offset after the last record; under read_committed, the last stable offset."""
EARLIEST: Final = -2
"""The first record of the log."""
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734, brokers since 3.0)."""
EARLIEST_LOCAL: Final = -4
"""The first record on the broker's own disk (KIP-405, brokers since 3.6)."""

_MIN_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}


@dataclass(frozen=True, slots=True)
class Offset:
    """The result of a query.

    `offset` is -1 if no record is that recent; `timestamp` (ms) is -1 unless the query is a time.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    queries: Mapping[TopicPartition, int],
    isolation: Isolation = "read_uncommitted",
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Offset | KohortError]:
    """The offset of each partition at EARLIEST, LATEST, MAX_TIMESTAMP or a timestamp in ms.

    A partition without a result has its error instead: KafkaError with the broker's code,
    GaveUpError after `timeout_ms` of attempts (default: `default_api_timeout_ms`),
    UnsupportedVersionError.
    """

    async def send(
        node_id: int, min_version: int, leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, Offset | KohortError]:
        queried = {tp: (queries[tp], leader) for tp, leader in leaders.items()}
        return await _list_from_leader(cluster, node_id, min_version, queried, isolation)

    return await send_to_leaders(
        cluster,
        {tp: _MIN_VERSIONS.get(query, 1) for tp, query in queries.items()},
        send,
        operation="list offsets",
        timeout_ms=cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
    )


async def _list_from_leader(
    cluster: Cluster,
    node_id: int,
    min_version: int,
    queried: Mapping[TopicPartition, tuple[int, Leader]],
    isolation: Isolation,
) -> dict[TopicPartition, Offset | KohortError]:
    connection = await cluster.connection(node_id)
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, (query, leader) in queried.items():
        entry = {
            "partition_index": tp.partition,
            "timestamp": query,
            "current_leader_epoch": leader.epoch,
        }
        topics[tp.topic].append(entry)
    response = await connection.send(
        "list_offsets",
        min_version=min_version,
        replica_id=-1,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    )
    responses = by_partition(response.topics)
    return {tp: _outcome(cluster, tp, responses.get(tp)) for tp in queried}


def _outcome(cluster: Cluster, tp: TopicPartition, response: Any) -> Offset | KohortError:
    if (error := partition_error(cluster, tp, response)) is not None:
        return error
    return Offset(response.offset, response.timestamp, getattr(response, "leader_epoch", -1))
