"""The metadata as a fold over the records of the metadata log.

The same shape as the coordinator: what is decided becomes a record, and `replay` is the only writer
of state.
"""

from collections.abc import Mapping
from uuid import UUID

from kohort.cluster import Cluster, LeaderChanged, NodeFenced, NodeRegistered, ReassignmentPlanned
from kohort.quotas import QuotaTable
from kohort.security.acls import Acls
from kohort.security.scram import ScramUsers
from kohort.server.config import ResourceType
from kohort.server.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ScramSecretRecord,
    ServerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kohort.types import TopicIdPartition


class MetadataImage:
    """The metadata as all records replayed so far give it."""

    def __init__(self) -> None:
        self.cluster_id = ""
        """"" before the first record."""
        self.topics: dict[UUID, TopicRecord] = {}
        self._ids: dict[str, UUID] = {}
        """The topics by name."""
        self.deleted: set[UUID] | None = set()
        """Topics that were deleted; None once their directories have been reconciled."""
        self.configs: dict[tuple[ResourceType, str], Mapping[str, str]] = {}
        """By resource; those without configs are left out."""
        self.quotas = QuotaTable()
        self.acls = Acls()
        self.producer_ids_end = 0
        self.scram_users = ScramUsers()
        self.cluster = Cluster()
        """Nodes and leaders, where there are several nodes."""

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                # The first creation of a name counts, whatever else was logged before its deletion.
                if self._ids.setdefault(record.name, record.id) == record.id:
                    self.topics[record.id] = record
            case RemoveTopicRecord():
                self._forget_topic(record.id)
            case ConfigRecord() if not record.configs:
                self.configs.pop((record.kind, record.name), None)
            case ConfigRecord():
                self.configs[record.kind, record.name] = record.configs
            case ClientQuotaRecord():
                self.quotas.replace(record.entity, record.quotas)
            case AccessControlEntryRecord():
                self.acls.add(record.id, record.binding)
            case RemoveAccessControlEntryRecord():
                self.acls.remove(record.id)
            case ProducerIdsRecord():
                self.producer_ids_end = record.end
            case ClusterIdRecord():
                self.cluster_id = record.cluster_id
            case UserScramCredentialRecord():
                self.scram_users.put(record.user, record.kind, record.credential)
            case ScramSecretRecord():
                self.scram_users.secret = record.secret
            case NodeRegistered() | NodeFenced() | LeaderChanged() | ReassignmentPlanned():
                self.cluster.replay(record)

    def leader_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch in which a partition is led; 0 at first."""
        leader = self.cluster.leaders.get(TopicIdPartition(topic_id, partition))
        return 0 if leader is None else leader.epoch

    def _forget_topic(self, topic_id: UUID) -> None:
        if topic_id in self.topics:
            del self._ids[self.topics.pop(topic_id).name]
        if self.deleted is not None:
            self.deleted.add(topic_id)

    def inverse(self, record: MetadataRecord) -> tuple[MetadataRecord, ...]:
        """The records that undo `record`, which is about to be replayed."""
        match record:
            case NodeRegistered() | NodeFenced() | LeaderChanged() | ReassignmentPlanned():
                return self.cluster.inverse(record)
            case _:
                return (self._inverse(record),)

    def _inverse(self, record: ServerRecord) -> MetadataRecord:
        match record:
            case TopicRecord(id=topic_id) | RemoveTopicRecord(id=topic_id):
                return self.topics.get(topic_id, RemoveTopicRecord(topic_id))
            case ConfigRecord(kind=kind, name=name):
                return ConfigRecord(kind, name, self.configs.get((kind, name), {}))
            case ClientQuotaRecord(entity=entity):
                return ClientQuotaRecord(entity, self.quotas.entities.get(entity, {}))
            case AccessControlEntryRecord(id=acl_id) | RemoveAccessControlEntryRecord(id=acl_id):
                binding = self.acls.get(acl_id)
                return (
                    RemoveAccessControlEntryRecord(acl_id)
                    if binding is None
                    else AccessControlEntryRecord(acl_id, binding)
                )
            case ProducerIdsRecord():
                return ProducerIdsRecord(self.producer_ids_end)
            case ClusterIdRecord():
                return ClusterIdRecord(self.cluster_id)
            case UserScramCredentialRecord(user=user, kind=mechanism):
                return UserScramCredentialRecord(
                    user, mechanism, self.scram_users.of(user).get(mechanism)
                )
            case ScramSecretRecord():
                return ScramSecretRecord(self.scram_users.secret)

    def __repr__(self) -> str:
        return (
            f"<MetadataImage {self.cluster_id} topics={len(self.topics)} acls={len(self.acls)} "
            f"producer_ids_end={self.producer_ids_end}>"
        )
