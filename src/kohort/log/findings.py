"""Findings of a check of stored logs, and the metadata that it compares them with."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kohort.types import TopicPartition


class Level(Enum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    """No server can use the place as it is, or a partition of it."""


class Finding(NamedTuple):
    """One line of a check."""

    level: Level
    what: str
    """The checked part, in a word."""
    text: str


class LoggedPartition(NamedTuple):
    """State of a partition by the metadata log."""

    topic_id: UUID
    leader_epoch: int


Fold: TypeAlias = Callable[[Iterable[bytes]], Mapping[TopicPartition, LoggedPartition]]
"""The partitions of all topics, by the batches of the metadata log in order. Raises ValueError."""
