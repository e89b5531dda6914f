"""A client of any Kafka broker: cluster, producer, fetcher, and groups with task scopes.

    from kohort.client import ConsumerGroup, Producer

The names here are the public ones. Each is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kohort.client.cluster import Cluster
    from kohort.client.config import ClientConfig
    from kohort.client.consumer import Consumer
    from kohort.client.fetch import Batch, Fetcher
    from kohort.client.group import ConsumerGroup, Generation, GroupClosedError
    from kohort.client.group_config import GroupConfig, GroupEvent
    from kohort.client.group_errors import (
        CommitError,
        CoordinatorUnavailableError,
        GenerationEndedError,
        GroupError,
        StuckError,
    )
    from kohort.client.membership import End
    from kohort.client.offset_and_metadata import OffsetAndMetadata
    from kohort.client.produce import DeadLetters, Producer
    from kohort.client.record import Record

_MODULES: Final = {
    "Batch": "fetch.batch",
    "ClientConfig": "config",
    "Cluster": "cluster.cluster",
    "CommitError": "group_errors",
    "Consumer": "consumer",
    "ConsumerGroup": "group.group",
    "CoordinatorUnavailableError": "group_errors",
    "DeadLetters": "produce.dead_letters",
    "End": "membership.events",
    "Fetcher": "fetch.fetcher",
    "Generation": "group.generation",
    "GenerationEndedError": "group_errors",
    "GroupClosedError": "group.group",
    "GroupConfig": "group_config",
    "GroupError": "group_errors",
    "GroupEvent": "group_config",
    "OffsetAndMetadata": "offset_and_metadata",
    "Producer": "produce.producer",
    "Record": "record",
    "StuckError": "group_errors",
}

__all__ = [
    "Batch",
    "ClientConfig",
    "Cluster",
    "CommitError",
    "Consumer",
    "ConsumerGroup",
    "CoordinatorUnavailableError",
    "DeadLetters",
    "End",
    "Fetcher",
    "Generation",
    "GenerationEndedError",
    "GroupClosedError",
    "GroupConfig",
    "GroupError",
    "GroupEvent",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "StuckError",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
