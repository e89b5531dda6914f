"""Changes of the metadata: one manager a concern decides and returns records, a writer commits."""

from kohort.server.controller.controller import (
    Controller,
    ForwardingController,
    SharedController,
    open_controller,
)
from kohort.server.controller.internal_topics import coordinator_topics
from kohort.server.controller.new_topic import Growth, NewTopic
from kohort.server.controller.replication_control import (
    MAX_PARTITIONS_PER_REQUEST,
    too_many_partitions,
)

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "Controller",
    "ForwardingController",
    "Growth",
    "NewTopic",
    "SharedController",
    "coordinator_topics",
    "open_controller",
    "too_many_partitions",
]
