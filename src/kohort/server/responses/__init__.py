"""Parts of responses that several handlers share."""

from kohort.server.responses.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    OPERATIONS_NOT_REQUESTED,
    TOPIC_OPERATIONS,
)
from kohort.server.responses.gather import Gather
from kohort.server.responses.partition_errors import Refusals
from kohort.server.responses.produce import FIRST_WITH_IDS, Produced, pack
from kohort.server.responses.replicas import validate_replicas

__all__ = [
    "CLUSTER_OPERATIONS",
    "FIRST_WITH_IDS",
    "GROUP_OPERATIONS",
    "OPERATIONS_NOT_REQUESTED",
    "TOPIC_OPERATIONS",
    "Gather",
    "Produced",
    "Refusals",
    "pack",
    "validate_replicas",
]
