"""The topics of a server: changes of the metadata log, and the logs of their partitions."""

from kohort.server.topics.followed import FollowedMetadata, FollowedTopics
from kohort.server.topics.leader_epochs import validate_leader_epoch
from kohort.server.topics.metadata_log import storage_error
from kohort.server.topics.of_coordinators import coordinator_topics
from kohort.server.topics.reconciliation import ensure_same_cluster
from kohort.server.topics.shared import SharedTopics
from kohort.server.topics.shared_metadata import SharedMetadata
from kohort.server.topics.topic import Growth, NewTopic, Topic
from kohort.server.topics.topic_logs import Placement
from kohort.server.topics.topics import MAX_PARTITIONS_PER_REQUEST, Topics, too_many_partitions
from kohort.server.topics.view import GroupTopics

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "FollowedMetadata",
    "FollowedTopics",
    "GroupTopics",
    "Growth",
    "NewTopic",
    "Placement",
    "SharedMetadata",
    "SharedTopics",
    "Topic",
    "Topics",
    "coordinator_topics",
    "ensure_same_cluster",
    "storage_error",
    "too_many_partitions",
    "validate_leader_epoch",
]
