"""Records of the metadata log, `__cluster_metadata`: the server, its topics, and its nodes.

Each record holds one thing as it is from now on: the cluster's id, one topic, the configs that
clients have set on another resource, the quotas of one entity, one ACL, the credential of a user,
how far producer ids were handed out, one node, the leader of one partition, or where that is to
move. What was deleted is a tombstone: a topic, an ACL, a credential, configs or quotas that were
all deleted, a node that is fenced, the leader of a partition that is gone. So a replay in order
(`image`) gives the state, compaction keeps the last record of each key, and a topic is created,
grown, configured or deleted by exactly one append.
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
    """A topic as it is from now on."""

    id: UUID
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """What was set on the topic itself."""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    id: UUID


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """What is set on a resource that is no topic from now on; without configs: nothing."""

    kind: ResourceType
    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """The quotas of users, client ids or addresses from now on; without quotas: none."""

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
    """The credential of a user for one mechanism from now on, None: it has none."""

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
