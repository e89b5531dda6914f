"""What clients ask of topics."""

from collections.abc import Mapping
from typing import NamedTuple


class NewTopic(NamedTuple):
    """A topic to be created."""

    name: str
    partitions: int
    configs: Mapping[str, str | None] = {}


class NewPartitions(NamedTuple):
    """A topic that is to have more partitions."""

    name: str
    total: int
    """Number of partitions after it."""
