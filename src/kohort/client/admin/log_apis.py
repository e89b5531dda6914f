"""Deletes records below an offset, and describes the brokers' log directories."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.admin.changes import may_be_made
from kohort.client.admin.coordinator_requests import refusal
from kohort.client.cluster import Cluster, Leader, partition_error, send_to_leaders
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """One log directory of a broker."""

    path: str
    error: KafkaError | None
    sizes: Mapping[TopicPartition, int]
    """Bytes of each partition."""
    total_bytes: int | None
    """Size of the volume; None from brokers before 3.3 (KIP-827)."""
    usable_bytes: int | None


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> dict[TopicPartition, int | KohortError]:
    """Delete the records below each offset (-1: all).

    The first offset that is left by partition, or the error.
    """

    async def ask(
        node_id: int, _kind: None, leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, int | KohortError]:
        return await _deleted(cluster, node_id, {tp: before[tp] for tp in leaders}, timeout_ms)

    return await send_to_leaders(
        cluster,
        dict.fromkeys(before),
        ask,
        what="delete records",
        timeout_ms=timeout_ms,
        advice=may_be_made("list the first offsets"),
    )


async def _deleted(
    cluster: Cluster, node_id: int, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KohortError]:
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, offset in before.items():
        topics[tp.topic].append({"partition_index": tp.partition, "offset": offset})
    asked = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    connection = await cluster.connection(node_id)
    response = await connection.send("delete_records", topics=asked, timeout=timeout_ms)
    found = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in response.topics
        for each in topic.partitions
    }
    return {
        tp: partition_error(cluster, tp, found.get(tp)) or found[tp].low_watermark for tp in before
    }


async def describe_log_dirs(
    cluster: Cluster, brokers: Collection[int]
) -> dict[int, tuple[LogDirectory, ...] | KohortError]:
    """The log directories of these brokers, of all if none is named, with all partitions."""
    nodes = brokers or (await cluster.metadata(())).brokers.keys()
    found = await asyncio.gather(*(_directories(cluster, each) for each in nodes))
    return dict(zip(nodes, found, strict=True))


async def _directories(cluster: Cluster, node_id: int) -> tuple[LogDirectory, ...] | KohortError:
    try:
        connection = await cluster.connection(node_id)
        response = await connection.send("describe_log_dirs", topics=None)
    except KohortError as error:
        return error.with_traceback(None)
    refused = refusal(getattr(response, "error_code", ErrorCode.none))
    return refused or tuple(map(_directory, response.results))


def _directory(told: Any) -> LogDirectory:
    return LogDirectory(
        path=told.log_dir,
        error=refusal(told.error_code),
        sizes={
            TopicPartition(topic.name, each.partition_index): each.partition_size
            for topic in told.topics
            for each in topic.partitions
        },
        total_bytes=getattr(told, "total_bytes", None),
        usable_bytes=getattr(told, "usable_bytes", None),
    )
