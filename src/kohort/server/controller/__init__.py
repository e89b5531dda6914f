"""Changes of the metadata: one manager a concern decides and returns records, a writer commits."""

from kohort.server.controller.controller import (
    Controller,
    ForwardingController,
    SharedController,
    open_controller,
)
from kohort.server.controller.internal_topics import coordinator_topics
from kohort.server.controller.new_topics import NewPartitions, NewTopic
from kohort.server.controller.replication_control import (
    MAX_PARTITIONS_PER_REQUEST,
    too_many_partitions,
)

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "Controller",
    "ForwardingController",
    "NewPartitions",
    "NewTopic",
    "SharedController",
    "coordinator_topics",
    "open_controller",
    "too_many_partitions",
]
