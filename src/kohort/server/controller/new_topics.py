"""Topics and partitions that a client wants to have created."""

from collections.abc import Mapping
from typing import NamedTuple


class NewTopic(NamedTuple):
    """A topic to be created."""

    name: str
    partitions: int
    configs: Mapping[str, str | None] = {}


class NewPartitions(NamedTuple):
    """More partitions of a topic, as in Kafka's Admin."""

    name: str
    total: int
    """Number of partitions after it."""
