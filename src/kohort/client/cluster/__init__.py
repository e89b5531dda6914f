"""Metadata of a cluster, connections to its brokers and coordinators, and offsets by time."""

from kohort.client.cluster.cluster import Cluster, open_cluster, request_topics
from kohort.client.cluster.find_coordinator import GROUP, TRANSACTION
from kohort.client.cluster.leader_requests import by_partition, partition_error, send_to_leaders
from kohort.client.cluster.metadata import (
    NO_EPOCH,
    NO_ID,
    NO_LEADER,
    Leader,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.client.cluster.offsets import EARLIEST, LATEST, Isolation, Offset, list_offsets

__all__ = [
    "EARLIEST",
    "GROUP",
    "LATEST",
    "NO_EPOCH",
    "NO_ID",
    "NO_LEADER",
    "TRANSACTION",
    "Cluster",
    "Isolation",
    "Leader",
    "Metadata",
    "Offset",
    "PartitionMetadata",
    "TopicMetadata",
    "by_partition",
    "list_offsets",
    "open_cluster",
    "partition_error",
    "request_topics",
    "send_to_leaders",
]
