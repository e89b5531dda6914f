"""A record as an application gets it."""

from enum import IntEnum
from typing import NamedTuple

from kohort.protocol.records import Header


class TimestampType(IntEnum):
    """Origin of a record's timestamp (Kafka's TimestampType)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """A record that was fetched."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In ms since 1970; -1 if there is none."""
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    """Pairs (name, value) in order; a name may occur several times."""
    leader_epoch: int
    """Epoch of the leader that appended it; commit it with the offset (KIP-320)."""
