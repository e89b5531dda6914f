"""Parts of responses that several handlers share, and encoders for large ones."""

from kohort.server.responses.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    OPERATIONS_NOT_REQUESTED,
    TOPIC_OPERATIONS,
)
from kohort.server.responses.committed_offsets import pack_topics
from kohort.server.responses.partition_responses import PartitionResponses
from kohort.server.responses.produce import (
    CURRENT_LEADER_SINCE,
    TOPIC_IDS_SINCE,
    PartitionProduceResponse,
    TopicProduceResponse,
    pack,
    parts,
)
from kohort.server.responses.response_collector import ResponseCollector

__all__ = [
    "CLUSTER_OPERATIONS",
    "CURRENT_LEADER_SINCE",
    "GROUP_OPERATIONS",
    "OPERATIONS_NOT_REQUESTED",
    "TOPIC_IDS_SINCE",
    "TOPIC_OPERATIONS",
    "PartitionProduceResponse",
    "PartitionResponses",
    "ResponseCollector",
    "TopicProduceResponse",
    "pack",
    "pack_topics",
    "parts",
]
