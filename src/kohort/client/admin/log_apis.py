"""Deletes records below an offset, and describes the brokers' log directories."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.admin.coordinator_requests import refusal
from kohort.client.cluster import Cluster
from kohort.client.errors import WRONG_LEADER
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
    found: dict[TopicPartition, int | KohortError] = {}
    by_node: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for tp, offset in before.items():
        try:
            by_node[(await cluster.leader(tp)).node_id][tp] = offset
        except KohortError as error:
            found[tp] = error
    parts = await asyncio.gather(
        *(_deleted(cluster, node_id, asked, timeout_ms) for node_id, asked in by_node.items())
    )
    for part in parts:
        found |= part
    return found


async def _deleted(
    cluster: Cluster, node_id: int, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KohortError]:
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, offset in before.items():
        topics[tp.topic].append({"partition_index": tp.partition, "offset": offset})
    asked = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    try:
        connection = await cluster.connection(node_id)
        response = await connection.send("delete_records", topics=asked, timeout=timeout_ms)
    except KohortError as error:
        return dict.fromkeys(before, error)
    missing = KafkaError(ErrorCode.unknown_server_error, "missing in the broker's response")
    found: dict[TopicPartition, int | KohortError] = dict.fromkeys(before, missing)
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code in WRONG_LEADER:
                cluster.stale(topic.name)
            tp = TopicPartition(topic.name, each.partition_index)
            found[tp] = refusal(each.error_code, str(tp)) or each.low_watermark
    return found


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
        return error
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
