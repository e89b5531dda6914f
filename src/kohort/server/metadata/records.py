"""Records of the metadata log, `__cluster_metadata`: the server, its topics, and its nodes.

Each record has the whole new state of one subject: the cluster's id, a topic, the configs that
clients have set on another resource, the quotas of one entity, an ACL, the credential of a user,
the end of the producer ids handed out, a node, the leader of a partition, or its planned move.
A deletion is a tombstone: of a topic, an ACL, a credential, all configs or quotas of a subject, a
fenced node, the leader of a deleted partition. A replay in order (`image`) therefore gives the
state, compaction keeps the last record of each key, and a topic is created, grown, configured or
deleted by exactly one append.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from kohort.cluster import LeaderChanged, NodeFenced, NodeRegistered, ReassignmentPlanned
from kohort.quotas import QuotaEntity
from kohort.security.acls import AclBinding
from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.config import ResourceType
from kohort.types import TopicPartition

METADATA: Final = TopicPartition("__cluster_metadata", 0)
"""Kafka's name for its own; no topic of that name can be created."""


@dataclass(frozen=True, slots=True)
class ClusterIdRecord:
    """The first record of every log."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """New state of a topic."""

    id: UUID
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """Configs of the topic itself."""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    id: UUID


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """New configs of a resource that is not a topic; empty: all were deleted."""

    kind: ResourceType
    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """New quotas of users, client ids or addresses; empty: all were deleted."""

    entity: QuotaEntity
    quotas: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An entry of the access control lists: Kafka's AccessControlEntryRecord."""

    id: UUID
    binding: AclBinding


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """Kafka's RemoveAccessControlEntryRecord."""

    id: UUID


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Producer ids below `end` were handed out, or may have been."""

    end: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """New credential of a user for one mechanism; None: it was deleted."""

    user: str
    kind: ScramMechanism
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class ScramSecretRecord:
    """The secret that the credentials of unknown users are invented by (`ScramUsers`)."""

    secret: bytes = field(repr=False)


ServerRecord: TypeAlias = (
    ClusterIdRecord
    | TopicRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ClientQuotaRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ProducerIdsRecord
    | UserScramCredentialRecord
    | ScramSecretRecord
)
"""Records of the server itself, without those of nodes and leaders."""
MetadataRecord: TypeAlias = (
    ServerRecord | NodeRegistered | NodeFenced | LeaderChanged | ReassignmentPlanned
)


def partitions_of(topic: TopicRecord, first: int = 0) -> dict[TopicPartition, UUID]:
    """The partitions of a topic from `first` on, as `PartitionDirectories.make` takes them."""
    return {TopicPartition(topic.name, index): topic.id for index in range(first, topic.partitions)}
