"""Topics as records of `__cluster_metadata`, and the logs of their partitions."""

from kohort.server.topics.cluster_metadata import (
    BATCH_RECORDS,
    METADATA,
    ClusterIdRecord,
    MetadataRecord,
    TopicRecord,
    decode_batches,
    in_batches,
)
from kohort.server.topics.followed import FollowedMetadata, FollowedTopics
from kohort.server.topics.leader_epochs import validate_leader_epoch
from kohort.server.topics.logged_partitions import known_partitions
from kohort.server.topics.metadata_log import storage_error
from kohort.server.topics.names import (
    INTERNAL,
    MAX_NAME_LENGTH,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    validate_name,
)
from kohort.server.topics.of_coordinators import coordinator_topics
from kohort.server.topics.reconciliation import ensure_same_cluster
from kohort.server.topics.shared import SharedTopics
from kohort.server.topics.shared_metadata import SharedMetadata
from kohort.server.topics.topic import Growth, NewTopic, Topic
from kohort.server.topics.topic_logs import Placement
from kohort.server.topics.topics import MAX_PARTITIONS_PER_REQUEST, Topics, too_many_partitions
from kohort.server.topics.view import GroupTopics

__all__ = [
    "BATCH_RECORDS",
    "INTERNAL",
    "MAX_NAME_LENGTH",
    "MAX_PARTITIONS_PER_REQUEST",
    "METADATA",
    "OFFSETS_TOPIC",
    "TRANSACTIONS_TOPIC",
    "ClusterIdRecord",
    "FollowedMetadata",
    "FollowedTopics",
    "GroupTopics",
    "Growth",
    "MetadataRecord",
    "NewTopic",
    "Placement",
    "SharedMetadata",
    "SharedTopics",
    "Topic",
    "TopicRecord",
    "Topics",
    "coordinator_topics",
    "decode_batches",
    "ensure_same_cluster",
    "in_batches",
    "known_partitions",
    "storage_error",
    "too_many_partitions",
    "validate_leader_epoch",
    "validate_name",
]
