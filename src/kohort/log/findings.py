"""What a check of a place has found, and what it needs to know."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kohort.types import TopicPartition


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    """No server can use the place as it is, or a partition of it."""


class Finding(NamedTuple):
    """One line of a check."""

    level: Level
    what: str
    """What was looked at, in a word."""
    text: str


class Known(NamedTuple):
    """What the metadata log tells of a partition."""

    topic_id: UUID
    leader_epoch: int


Fold: TypeAlias = Callable[[Iterable[bytes]], Mapping[TopicPartition, Known]]
"""The partitions of all topics, by the batches of the metadata log in order. Raises ValueError."""
