"""What brokers tell of the cluster: brokers, topics, partitions and who leads them (Kafka's
Metadata API, v4+).

A leader is known with its epoch. Brokers learn of changes one after the other, so that an answer
may be older than what is known already: of two leaders of a partition the one with the larger epoch
is right (KIP-320), unless the topic was made anew, which its id tells (KIP-516; brokers before 2.8
do not).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from kohort.client.config import Address
from kohort.errors import ErrorCode

NO_EPOCH: Final = -1
NO_LEADER: Final = -1
MIN_VERSION: Final = 4
"""The first that can say that a topic shall not be created by being asked for."""


class Leader(NamedTuple):
    """Who leads a partition."""

    node_id: int
    epoch: int
    """-1 from brokers that do not tell."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, where clients reach it."""

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
    """One topic, or the error that its name got. `id` is None from brokers that do not tell."""

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
        return next((each for each in self.partitions if each.index == index), None)

    def after(self, known: "TopicMetadata | None") -> "TopicMetadata":
        """This answer, but for leaders of a smaller epoch than is known of the same topic."""
        if known is None or known.id != self.id or self.error is not ErrorCode.none:
            return self
        return replace(
            self,
            partitions=tuple(_newer(each, known.partition(each.index)) for each in self.partitions),
        )


def _newer(told: PartitionMetadata, known: PartitionMetadata | None) -> PartitionMetadata:
    if known is None or told.leader_epoch == NO_EPOCH:
        return told
    return told if told.leader_epoch >= known.leader_epoch else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One answer."""

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    """By node id."""
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    """By name. A topic that was asked for and does not exist is here with its error."""


def fields_of_request(topics: Iterable[str] | None, allow_auto_create: bool) -> dict[str, Any]:
    """What a Metadata request says; None asks for all topics."""
    named = None if topics is None else [{"name": each, "topic_id": None} for each in topics]
    return {"topics": named, "allow_auto_topic_creation": allow_auto_create}


def from_response(response: Any) -> Metadata:
    """The values in kio's response of any version."""
    return Metadata(
        brokers={
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for each in response.brokers
        },
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
        topics={each.name: _topic(each) for each in response.topics if each.name is not None},
    )


def _topic(told: Any) -> TopicMetadata:
    return TopicMetadata(
        name=told.name,
        id=getattr(told, "topic_id", None),
        error=told.error_code,
        is_internal=told.is_internal,
        partitions=tuple(sorted(map(_partition, told.partitions), key=lambda each: each.index)),
    )


def _partition(told: Any) -> PartitionMetadata:
    return PartitionMetadata(
        index=told.partition_index,
        leader=told.leader_id,
        leader_epoch=getattr(told, "leader_epoch", NO_EPOCH),
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        error=told.error_code,
    )
