"""kcat's queries: `-L`, the cluster's brokers and topics; `-Q`, offsets by timestamp."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kohort.cli.output import print_line
from kohort.client.admin import Admin
from kohort.client.cluster import Metadata, PartitionMetadata, TopicMetadata
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError, unless_error
from kohort.types import TopicPartition


async def list_metadata(admin: Admin, topic: str | None, *, as_json: bool) -> None:
    """Print brokers and one topic or all. Raises KafkaError if that topic does not exist."""
    metadata = await admin.cluster.metadata(None if topic is None else [topic])
    for described in metadata.topics.values():
        if topic is not None and described.error is not ErrorCode.none:
            raise KafkaError(described.error, f"topic {described.name}")
    if as_json:
        print(json.dumps(_as_json(metadata, topic)))
        return
    for line in _lines(metadata, topic):
        print_line(line)


def queries(texts: Iterable[str]) -> list[tuple[TopicPartition, int]]:
    """Partitions and timestamps (ms), of words TOPIC:PARTITION:TIMESTAMP. Raises ConfigError."""
    return list(map(_parsed, texts))


async def query_offsets(
    admin: Admin, requested: Sequence[tuple[TopicPartition, int]], *, as_json: bool
) -> None:
    """Print for each the first offset that is not older. Raises KohortError."""
    await _require_partitions(admin, [tp for tp, _ in requested])
    response: dict[str, dict[str, dict[str, int]]] = {}
    for tp, timestamp in requested:  # one after the other: a partition may be asked about twice
        # -1 if no record is as late, as in the response
        offset = unless_error((await admin.list_offsets({tp: timestamp}))[tp]).offset
        response.setdefault(tp.topic, {})[str(tp.partition)] = {"offset": offset}
        if not as_json:
            print_line(f"{tp.topic} [{tp.partition}] offset {offset}")
    if as_json:
        print(json.dumps(response))


async def _require_partitions(admin: Admin, requested: Iterable[TopicPartition]) -> None:
    """Raise KohortError for missing partitions, which would be retried as if they were new."""
    described = await admin.describe_topics({tp.topic for tp in requested})
    for tp in requested:
        require_partition(unless_error(described[tp.topic]), tp.partition)


def require_partition(topic: TopicMetadata, partition: int) -> None:
    """Raise KohortError if the topic has no such partition."""
    if topic.partition(partition) is None:
        last = len(topic.partitions) - 1
        raise KohortError(f"topic {topic.name} has partitions 0 to {last}, not {partition}")


def _parsed(word: str) -> tuple[TopicPartition, int]:
    topic, _, partition_and_time = word.partition(":")
    partition, _, timestamp = partition_and_time.partition(":")
    if not topic or not partition.isdecimal() or not timestamp.lstrip("-").isdecimal():
        raise ConfigError(
            f"-t {word}: with -Q it is TOPIC:PARTITION:TIMESTAMP; in ms since 1970, or -1 "
            "end, -2 start"
        )
    return TopicPartition(topic, int(partition)), int(timestamp)


# --- as kcat prints it
# -----------------------------------------------------------------------------------------------


def _lines(metadata: Metadata, topic: str | None) -> Iterator[str]:
    yield f"Metadata for {topic or 'all topics'}:"
    yield f" {len(metadata.brokers)} brokers:"
    for node_id, broker in sorted(metadata.brokers.items()):
        controller = " (controller)" if node_id == metadata.controller_id else ""
        yield f"  broker {node_id} at {broker.host}:{broker.port}{controller}"
    yield f" {len(metadata.topics)} topics:"
    for name in sorted(metadata.topics):
        topic_metadata = metadata.topics[name]
        partitions, error = topic_metadata.partitions, _error_name(topic_metadata.error)
        yield f'  topic "{name}" with {len(partitions)} partitions:{error}'
        yield from map(_partition_line, partitions)


def _partition_line(partition: PartitionMetadata) -> str:
    replicas, isrs = (",".join(map(str, nodes)) for nodes in (partition.replicas, partition.isr))
    return (
        f"    partition {partition.index}, leader {partition.leader}, replicas: {replicas}, isrs: "
        f"{isrs}{_error_name(partition.error)}"
    )


def _error_name(error: ErrorCode) -> str:
    return "" if error is ErrorCode.none else f" {error.name.upper()}"


def _as_json(metadata: Metadata, topic: str | None) -> dict[str, Any]:
    brokers = sorted(metadata.brokers.items())
    return {
        "query": {"topic": topic or "*"},
        "controllerid": metadata.controller_id,
        "brokers": [
            {"id": node_id, "name": f"{broker.host}:{broker.port}"} for node_id, broker in brokers
        ],
        "topics": [_topic_as_json(metadata.topics[name]) for name in sorted(metadata.topics)],
    }


def _topic_as_json(topic: TopicMetadata) -> dict[str, Any]:
    partitions = [
        {
            "partition": partition.index,
            "leader": partition.leader,
            "replicas": [{"id": node_id} for node_id in partition.replicas],
            "isrs": [{"id": node_id} for node_id in partition.isr],
        }
        for partition in topic.partitions
    ]
    return {"topic": topic.name, "partitions": partitions}
