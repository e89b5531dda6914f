"""A record as an application gets it."""

from enum import IntEnum
from typing import Generic, NamedTuple, cast

from typing_extensions import TypeVar

from kohort.protocol.records import Header

K = TypeVar("K", default=bytes)
"""Type of the keys that a consumer hands out: bytes without a deserializer."""
V = TypeVar("V", default=bytes)
"""Type of the values."""


class TimestampType(IntEnum):
    """Origin of a record's timestamp (Kafka's TimestampType)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple, Generic[K, V]):
    """A record that was fetched."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In ms since 1970; -1 if there is none."""
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: tuple[Header, ...]
    """Pairs (name, value) in order; a name may occur several times."""
    leader_epoch: int
    """Epoch of the leader that appended it; commit it with the offset (KIP-320)."""

    @property
    def raw(self) -> "Record":
        """The record with key and value as the bytes that are in the log."""
        return cast("Record", self)
