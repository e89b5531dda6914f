"""Deletes records below an offset, and describes the brokers' log directories."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.admin.changes import may_be_made
from kohort.client.admin.coordinator_requests import refusal
from kohort.client.cluster import Cluster, Leader, by_partition, partition_error, send_to_leaders
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """One log directory of a broker."""

    path: str
    error: KafkaError | None
    sizes: Mapping[TopicPartition, int]
    """Size of each partition in bytes."""
    total_bytes: int | None
    """Size of the volume; None from brokers before 3.3 (KIP-827)."""
    usable_bytes: int | None


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> dict[TopicPartition, int | KohortError]:
    """Delete the records below each offset (-1: all).

    Returns the new first offset of each partition, or its error.
    """

    async def send(
        node_id: int, _kind: None, leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, int | KohortError]:
        return await _deleted(cluster, node_id, {tp: before[tp] for tp in leaders}, timeout_ms)

    return await send_to_leaders(
        cluster,
        dict.fromkeys(before),
        send,
        operation="delete records",
        timeout_ms=timeout_ms,
        advice=may_be_made("list the first offsets"),
    )


async def _deleted(
    cluster: Cluster, node_id: int, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KohortError]:
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, offset in before.items():
        topics[tp.topic].append({"partition_index": tp.partition, "offset": offset})
    topics_field = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    connection = await cluster.connection(node_id)
    response = await connection.send("delete_records", topics=topics_field, timeout=timeout_ms)
    results = by_partition(response.topics)
    return {
        tp: partition_error(cluster, tp, results.get(tp)) or results[tp].low_watermark
        for tp in before
    }


async def describe_log_dirs(
    cluster: Cluster, brokers: Collection[int]
) -> dict[int, tuple[LogDirectory, ...] | KohortError]:
    """The log directories of these brokers, or of all, with the sizes of all partitions."""
    nodes = brokers or (await cluster.metadata(())).brokers.keys()
    directories = await asyncio.gather(*(_directories(cluster, node_id) for node_id in nodes))
    return dict(zip(nodes, directories, strict=True))


async def _directories(cluster: Cluster, node_id: int) -> tuple[LogDirectory, ...] | KohortError:
    try:
        connection = await cluster.connection(node_id)
        response = await connection.send("describe_log_dirs", topics=None)
    except KohortError as error:
        return error.with_traceback(None)
    refused = refusal(getattr(response, "error_code", ErrorCode.none))
    return refused or tuple(map(_directory, response.results))


def _directory(directory: Any) -> LogDirectory:
    return LogDirectory(
        path=directory.log_dir,
        error=refusal(directory.error_code),
        sizes={
            tp: partition.partition_size for tp, partition in by_partition(directory.topics).items()
        },
        total_bytes=getattr(directory, "total_bytes", None),
        usable_bytes=getattr(directory, "usable_bytes", None),
    )
