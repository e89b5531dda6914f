"""The topics of a server: changes of the metadata log, and the logs of their partitions."""

from kohort.server.topics.followed import FollowedMetadata, FollowedTopics
from kohort.server.topics.new_topic import Growth, NewTopic
from kohort.server.topics.of_coordinators import coordinator_topics
from kohort.server.topics.shared import SharedTopics
from kohort.server.topics.shared_metadata import SharedMetadata
from kohort.server.topics.topics import MAX_PARTITIONS_PER_REQUEST, Topics, too_many_partitions
from kohort.server.topics.view import GroupTopics

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "FollowedMetadata",
    "FollowedTopics",
    "GroupTopics",
    "Growth",
    "NewTopic",
    "SharedMetadata",
    "SharedTopics",
    "Topics",
    "coordinator_topics",
    "too_many_partitions",
]
