"""The schema of `__transaction_state`: one record per transition of a transactional id.

A record is a key `[int16 0][string transactional id]` and a value `[int16 version][body]`; a null
value is a tombstone: the id has expired. The body of v0 is the one of v1 without compact lengths
and tags:

| field | type |
|---|---|
| producer id, epoch | int64, int16 |
| timeout in ms | int32 |
| state | int8 |
| partitions | nullable array of (topic, array of int32); null in Empty |
| last update, start of the transaction | int64, int64; ms since the epoch |
| tag 0: previous producer id | int64 |
| tag 1: next producer id | int64, only while the id changes |
| tag 2: client's transaction version | int16, 2 for TV2 (KIP-890), absent for 0 |

Both versions are read. As in Kafka 4.4 with `transaction.version` 2, v1 is written.

Source: TransactionLogKey/Value.json of Kafka's transaction-coordinator.
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kohort.coordinator_common import CorruptRecordError, RecordReader
from kohort.protocol.packing import pack_compact_string, pack_string, pack_varint

NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1


class TransactionState(IntEnum):
    """State of a transactional id, by its number in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Kafka's name, such as "PrepareCommit"."""
        return self.name.title().replace("_", "")


Partitions = Mapping[str, frozenset[int]]
"""Topic → partitions."""


class TransactionMetadata(NamedTuple):
    """A transactional id, from its last record."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    """Partitions of the open or ending transaction; none in Empty and after the end."""
    last_update: int
    """ms since the epoch."""
    start: int
    """Start of the last transaction in ms since the epoch; -1 in Empty."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition, usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the end of the transaction, if the epochs are exhausted."""
    client_version: int = 0
    """Transaction version of the request of the last transition: 2, or 0 for older versions."""


class TransactionRecord(NamedTuple):
    """One record; None as its value is a tombstone."""

    transactional_id: str
    value: TransactionMetadata | None


_HEAD: Final = struct.Struct(">hqhib")
_BODY: Final = struct.Struct(">qhib")
"""`_HEAD` without the version."""
_STATES: Final = {int(state): state for state in TransactionState}
_TIMES: Final = struct.Struct(">qq")
_VERSION: Final = 1
_INT64_TAG: Final = struct.Struct(">BBq")
_INT16_TAG: Final = struct.Struct(">BBh")
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2


# --- writing ---


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """(key, value) as Kafka 4.4 writes them; the value is None for a tombstone."""
    key = b"\x00\x00" + pack_string(record.transactional_id)
    return key, None if record.value is None else encode_value(record.value)


def encode_value(value: TransactionMetadata) -> bytes:
    """The value of a record in version 1."""
    head = _HEAD.pack(
        _VERSION, value.producer_id, value.producer_epoch, value.timeout_ms, value.state
    )
    times = _TIMES.pack(value.last_update, value.start)
    return b"".join((head, *_partitions(value), times, _tags(value)))


def _partitions(value: TransactionMetadata) -> Iterator[bytes]:
    if value.state is TransactionState.EMPTY:
        yield b"\x00"
        return
    yield pack_varint(len(value.partitions) + 1)
    for topic, partitions in value.partitions.items():
        yield pack_compact_string(topic)
        yield pack_varint(len(partitions) + 1)
        yield struct.pack(f">{len(partitions)}i", *sorted(partitions))
        yield b"\x00"


def _tags(value: TransactionMetadata) -> bytes:
    tags = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_INT64_TAG.pack(_PREVIOUS_ID, 8, value.previous_producer_id))
    if value.next_producer_id != NO_PRODUCER_ID:
        tags.append(_INT64_TAG.pack(_NEXT_ID, 8, value.next_producer_id))
    if value.client_version:
        tags.append(_INT16_TAG.pack(_CLIENT_VERSION, 2, value.client_version))
    return bytes((len(tags),)) + b"".join(tags)


# --- reading ---


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The record that `encode` or Kafka wrote, None for a key of another type.

    Raises CorruptRecordError if the bytes do not follow the schema.
    """
    try:
        reader = RecordReader(key)
        if reader.int16() != 0:
            return None
        return TransactionRecord(reader.string(), None if value is None else _read_value(value))
    except ValueError as e:
        raise CorruptRecordError(f"record of __transaction_state with key {key[:64]!r}: {e}") from e


def _read_value(data: bytes) -> TransactionMetadata:
    reader = RecordReader(data)
    reader.version(_VERSION)
    producer_id, epoch, timeout_ms, number = reader.fields(_BODY)
    state = _STATES.get(number) or TransactionState(number)
    partitions = {}
    for _ in range(reader.array_length()):
        topic = reader.string()
        partitions[topic] = frozenset(reader.int32s())
        reader.tags()
    last_update, start = reader.fields(_TIMES)
    tags = reader.tags()
    return TransactionMetadata(
        producer_id,
        epoch,
        timeout_ms,
        state,
        {} if state is TransactionState.EMPTY else partitions,  # as Kafka reads it
        last_update,
        start,
        _number(tags, _PREVIOUS_ID, 8, NO_PRODUCER_ID),
        _number(tags, _NEXT_ID, 8, NO_PRODUCER_ID),
        _number(tags, _CLIENT_VERSION, 2, 0),
    )


def _number(tags: Mapping[int, bytes], tag: int, size: int, default: int) -> int:
    if tag not in tags:
        return default
    if len(tags[tag]) != size:
        raise CorruptRecordError(f"tag {tag} has {len(tags[tag])} bytes in place of {size}")
    return int.from_bytes(tags[tag], "big", signed=True)
