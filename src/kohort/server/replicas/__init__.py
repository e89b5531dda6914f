"""The open topics of a server, and the logs of their partitions (Kafka's ReplicaManager)."""

from kohort.server.replicas.leader_epochs import validate_leader_epoch
from kohort.server.replicas.reconciliation import (
    ensure_metadata_directory,
    ensure_same_cluster,
    reconcile,
)
from kohort.server.replicas.response_cache import ResponseCache
from kohort.server.replicas.topic import Topic
from kohort.server.replicas.topic_logs import Placement, TopicLogs, everywhere

__all__ = [
    "Placement",
    "ResponseCache",
    "Topic",
    "TopicLogs",
    "ensure_metadata_directory",
    "ensure_same_cluster",
    "everywhere",
    "reconcile",
    "validate_leader_epoch",
]
