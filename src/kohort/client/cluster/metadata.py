"""Metadata of a cluster: brokers, topics, partitions and their leaders (Kafka's Metadata API, v4+).

A leader has an epoch. Brokers learn of changes one after the other, so a response may be older than
the cached metadata. Of two leaders of a partition the one with the larger epoch is right (KIP-320).
A recreated topic has new epochs and another id (KIP-516, brokers since 2.8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from kohort.client.config import Address
from kohort.errors import ErrorCode

NO_EPOCH: Final = -1
NO_ID: Final = UUID(int=0)
NO_LEADER: Final = -1
MIN_VERSION: Final = 4
"""The first version in which a request can refuse to create the topic."""
TOPIC_IDS_SINCE: Final = 12
"""The first version in which a request can name a topic by its id alone."""


class Leader(NamedTuple):
    """The leader of a partition."""

    node_id: int
    epoch: int
    """-1 from brokers that do not report it."""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """One broker, and the address where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return self.host, self.port


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition. `leader` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic, or the error of its name. `id` is None from brokers that do not report it."""

    name: str
    id: UUID | None = None
    error: ErrorCode = ErrorCode.none
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    """In the order of their indexes."""

    def partition(self, index: int) -> PartitionMetadata | None:
        """The partition of that index, if there is one."""
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((partition for partition in self.partitions if partition.index == index), None)

    @property
    def exists(self) -> bool:
        """Whether the topic exists, perhaps with partitions that have no leader now."""
        return self.error in (ErrorCode.none, ErrorCode.leader_not_available)

    def is_another(self, topic_id: UUID | None) -> bool:
        """Whether the topic exists with another id than `topic_id`: it was recreated."""
        return self.exists and None not in (topic_id, self.id) and self.id not in (topic_id, NO_ID)

    def after(self, cached: "TopicMetadata | None") -> "TopicMetadata":
        """This metadata, but with cached leaders of a larger epoch of the same topic."""
        if cached is None or cached.id != self.id or self.error is not ErrorCode.none:
            return self
        return replace(
            self,
            partitions=tuple(
                _newer(partition, cached.partition(partition.index))
                for partition in self.partitions
            ),
        )


def _newer(received: PartitionMetadata, cached: PartitionMetadata | None) -> PartitionMetadata:
    if cached is None or received.leader_epoch == NO_EPOCH:
        return received
    return received if received.leader_epoch >= cached.leader_epoch else cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A Metadata response."""

    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    """Brokers by node id."""
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    """Topics by name. A requested topic that does not exist has its error here."""


def fields_of_request(topics: Iterable[str] | None, allow_auto_create: bool) -> dict[str, Any]:
    """Fields of a Metadata request; None requests all topics."""
    named = None if topics is None else [{"name": topic, "topic_id": None} for topic in topics]
    return {"topics": named, "allow_auto_topic_creation": allow_auto_create}


def from_response(response: Any) -> Metadata:
    """The metadata in kio's response of any version."""
    return Metadata(
        brokers={
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        },
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
        topics={topic.name: _topic(topic) for topic in response.topics if topic.name is not None},
    )


def _topic(topic: Any) -> TopicMetadata:
    return TopicMetadata(
        name=topic.name,
        id=getattr(topic, "topic_id", None),
        error=topic.error_code,
        is_internal=topic.is_internal,
        partitions=tuple(
            sorted(map(_partition, topic.partitions), key=lambda partition: partition.index)
        ),
    )


def _partition(partition: Any) -> PartitionMetadata:
    return PartitionMetadata(
        index=partition.partition_index,
        leader=partition.leader_id,
        leader_epoch=getattr(partition, "leader_epoch", NO_EPOCH),
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        error=partition.error_code,
    )
