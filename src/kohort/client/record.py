"""A record as an application sees it."""

from enum import IntEnum
from typing import NamedTuple

from kohort.protocol.records import Header


class TimestampType(IntEnum):
    """Whose time a record has (Kafka's TimestampType)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record that was fetched."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since 1970, -1 if it has none."""
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    """(name, value) pairs, in order; names may occur several times."""
    leader_epoch: int
    """Of the leader that took it; to be committed with its offset (KIP-320)."""
