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
    for each in metadata.topics.values():
        if topic is not None and each.error is not ErrorCode.none:
            raise KafkaError(each.error, f"topic {each.name}")
    if as_json:
        print(json.dumps(_as_json(metadata, topic)))
        return
    for line in _lines(metadata, topic):
        print_line(line)


def queries(words: Iterable[str]) -> list[tuple[TopicPartition, int]]:
    """Partitions and timestamps (ms), of words TOPIC:PARTITION:TIMESTAMP. Raises ConfigError."""
    return list(map(_parsed, words))


async def query_offsets(
    admin: Admin, wanted: Sequence[tuple[TopicPartition, int]], *, as_json: bool
) -> None:
    """Print for each the first offset that is not older. Raises KohortError."""
    await _require_partitions(admin, [tp for tp, _ in wanted])
    found: dict[str, dict[str, dict[str, int]]] = {}
    for tp, timestamp in wanted:  # one after the other: a partition may be asked about twice
        # -1 where no record is that young, as the brokers tell it
        offset = unless_error((await admin.list_offsets({tp: timestamp}))[tp]).offset
        found.setdefault(tp.topic, {})[str(tp.partition)] = {"offset": offset}
        if not as_json:
            print_line(f"{tp.topic} [{tp.partition}] offset {offset}")
    if as_json:
        print(json.dumps(found))


async def _require_partitions(admin: Admin, wanted: Iterable[TopicPartition]) -> None:
    """Raise KohortError for missing partitions, which would be retried as if they were new."""
    described = await admin.describe_topics({tp.topic for tp in wanted})
    for tp in wanted:
        require_partition(unless_error(described[tp.topic]), tp.partition)


def require_partition(topic: TopicMetadata, partition: int) -> None:
    """Raise KohortError if the topic has no such partition."""
    if topic.partition(partition) is None:
        last = len(topic.partitions) - 1
        raise KohortError(f"topic {topic.name} has partitions 0 to {last}, not {partition}")


def _parsed(word: str) -> tuple[TopicPartition, int]:
    topic, _, rest = word.partition(":")
    partition, _, timestamp = rest.partition(":")
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
        of = metadata.topics[name]
        yield f'  topic "{name}" with {len(of.partitions)} partitions:{_error_name(of.error)}'
        yield from map(_partition_line, of.partitions)


def _partition_line(of: PartitionMetadata) -> str:
    replicas, isrs = (",".join(map(str, nodes)) for nodes in (of.replicas, of.isr))
    return (
        f"    partition {of.index}, leader {of.leader}, replicas: {replicas}, isrs: "
        f"{isrs}{_error_name(of.error)}"
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


def _topic_as_json(of: TopicMetadata) -> dict[str, Any]:
    partitions = [
        {
            "partition": each.index,
            "leader": each.leader,
            "replicas": [{"id": node_id} for node_id in each.replicas],
            "isrs": [{"id": node_id} for node_id in each.isr],
        }
        for each in of.partitions
    ]
    return {"topic": of.name, "partitions": partitions}
