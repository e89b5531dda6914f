"""The open topics of a server, and the logs of their partitions (Kafka's ReplicaManager)."""

from kohort.server.replicas.claimed_names import ClaimedNames
from kohort.server.replicas.group_topics import GroupTopics
from kohort.server.replicas.leader_epochs import validate_leader_epoch
from kohort.server.replicas.metadata_loader import FollowedLog, MetadataLoader
from kohort.server.replicas.partition_logs import Placement, everywhere
from kohort.server.replicas.reconciliation import ensure_metadata_directory, ensure_same_cluster
from kohort.server.replicas.replica_manager import ReplicaManager
from kohort.server.replicas.shared_replica_manager import SharedReplicaManager
from kohort.server.replicas.topic import Topic
from kohort.server.replicas.topics import Topics

__all__ = [
    "ClaimedNames",
    "FollowedLog",
    "GroupTopics",
    "MetadataLoader",
    "Placement",
    "ReplicaManager",
    "SharedReplicaManager",
    "Topic",
    "Topics",
    "ensure_metadata_directory",
    "ensure_same_cluster",
    "everywhere",
    "validate_leader_epoch",
]
