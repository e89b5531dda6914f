"""What the server knows of itself and its topics, as records of one log: `__cluster_metadata`.

Each record holds one thing as it is from now on: the cluster's id, one topic, or how far producer
ids were handed out; a topic that was deleted is a tombstone. So `replay` in order gives the state,
compaction keeps the last record of each key, and a topic is created, grown, configured or deleted
by exactly one append. The keys and values are JSON, for people with `kafka-console-consumer` in a
bad hour.

The same shape as the coordinator: what is decided becomes a record, and `replay` is the only writer
of state.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.protocol import batches
from kohort.types import TopicPartition

METADATA: Final = TopicPartition("__cluster_metadata", 0)
"""Kafka's name for its own; no topic of that name can be created."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The first record of every log."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic as it is from now on."""

    id: UUID
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """What was set on the topic itself."""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    id: UUID


@dataclass(frozen=True, slots=True)
class ProducerIdsReserved:
    """Producer ids below `end` were handed out, or may have been."""

    end: int


MetadataRecord: TypeAlias = ClusterRecord | TopicRecord | TopicDeleted | ProducerIdsReserved


class ClusterState:
    """The fold of the records."""

    def __init__(self) -> None:
        self.cluster_id = ""
        """"" before the first record."""
        self.topics: dict[UUID, TopicRecord] = {}
        self.producer_ids_end = 0

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self.topics[record.id] = record
            case TopicDeleted():
                self.topics.pop(record.id, None)
            case ProducerIdsReserved():
                self.producer_ids_end = record.end
            case ClusterRecord():
                self.cluster_id = record.cluster_id

    def __repr__(self) -> str:
        return (
            f"<ClusterState {self.cluster_id} topics={len(self.topics)} "
            f"producer_ids_end={self.producer_ids_end}>"
        )


def encode(record: MetadataRecord) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    match record:
        case TopicRecord():
            value = {
                "name": record.name,
                "partitions": record.partitions,
                "configs": dict(record.configs),
                "internal": record.internal,
            }
            return _json({"topic": str(record.id)}), _json(value)
        case TopicDeleted():
            return _json({"topic": str(record.id)}), None
        case ProducerIdsReserved():
            return _json({"producer ids": "reserved"}), _json({"end": record.end})
        case ClusterRecord():
            return _json({"cluster": "id"}), _json({"id": record.cluster_id})


def decode(key: bytes, value: bytes | None) -> MetadataRecord | None:
    """The record, or None if it is of a kind that only later versions know."""
    name, fields = json.loads(key), None if value is None else json.loads(value)
    if "topic" in name:
        return _decode_topic(UUID(name["topic"]), fields)
    if "cluster" in name and fields is not None:
        return ClusterRecord(fields["id"])
    if "producer ids" in name and fields is not None:
        return ProducerIdsReserved(fields["end"])
    return None


def _decode_topic(topic_id: UUID, fields: Mapping[str, Any] | None) -> TopicRecord | TopicDeleted:
    if fields is None:
        return TopicDeleted(topic_id)
    return TopicRecord(
        id=topic_id,
        name=fields["name"],
        partitions=fields["partitions"],
        configs=fields["configs"],
        internal=fields["internal"],
    )


def encode_batch(records: Iterable[MetadataRecord], now: int) -> bytes:
    """One batch: its records are in the log together or not at all."""
    return batches.pack([encode(record) for record in records], now)


def decode_batches(data: batches.Buffer) -> Iterable[MetadataRecord]:
    """The records of the whole batches in `data`, in order."""
    for position, _ in batches.iterate(data):
        for record in batches.decode_records(data, position):
            known = None if record.key is None else decode(record.key, record.value)
            if known is not None:
                yield known


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
