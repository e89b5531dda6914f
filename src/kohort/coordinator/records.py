"""The schema of `__consumer_offsets`: record types of the group log, and their bytes.

A record is a key `[int16 type][body]` and a value `[int16 version][body]`; a null value is a
tombstone. These are the types of committed offsets and of the classic protocol:

| type | key | value |
|---|---|---|
| 0, 1 | `OffsetCommitKey` (0: written by Kafka 0.8, read only) | `OffsetCommitValue` v0-v4 |
| 2 | `GroupMetadataKey` | `GroupMetadataValue` v0-v4 |

Every version is read. As in Kafka 4.4, GroupMetadataValue v3 and OffsetCommitValue v4 are written.
A commit with an expiry of its own is written as v1, the only version that can hold one.

`consumer_records` has the types of consumer groups (KIP-848). The other key types belong to
protocols that are not served; `decode` returns None for them, so a log that Kafka wrote can be
loaded.

Source: OffsetCommitKey/Value.json and GroupMetadataKey/Value.json of Kafka's group-coordinator.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.coordinator import consumer_records
from kohort.coordinator.consumer_records import ConsumerGroupRecord
from kohort.coordinator_common import CorruptRecordError, RecordReader
from kohort.protocol.packing import pack_bytes, pack_int32, pack_string, pack_varint

NO_TIMESTAMP: Final = -1


class OffsetCommitKey(NamedTuple):
    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    """ms since the epoch."""
    expire_timestamp: int = NO_TIMESTAMP
    """Expiry in ms since the epoch; -1 means the broker's retention."""
    topic_id: UUID | None = None


class GroupMetadataKey(NamedTuple):
    group: str


class MemberMetadata(NamedTuple):
    """One member of a synced generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the chosen protocol."""
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """The last synced generation of a group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    """ms since the epoch when the group entered this state; -1: unknown."""
    members: tuple[MemberMetadata, ...]


class OffsetCommitRecord(NamedTuple):
    key: OffsetCommitKey
    value: OffsetCommitValue | None


class OffsetCommits(NamedTuple):
    """`OffsetCommitRecord`s of one group and topic, column by column.

    The result of an OffsetCommit. The values are made by `pack_offset`: they are logged and stored
    as bytes, and decoded when they are fetched.
    """

    group: str
    topic: str
    partitions: Sequence[int]
    values: Sequence[bytes]
    """One value per partition, all of one size."""

    def rows(self) -> list[OffsetCommitRecord]:
        """The same as one record per partition."""
        keys = (OffsetCommitKey(self.group, self.topic, partition) for partition in self.partitions)
        return [
            OffsetCommitRecord(key, unpack_offset(value))
            for key, value in zip(keys, self.values, strict=True)
        ]


class GroupMetadataRecord(NamedTuple):
    key: GroupMetadataKey
    value: GroupMetadataValue | None


class TransactionalOffsets(NamedTuple):
    """Offsets that a producer commits in a transaction: records of a transactional batch."""

    producer_id: int
    producer_epoch: int
    commits: OffsetCommits


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction: a control record."""

    producer_id: int
    commit: bool


Row: TypeAlias = OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord
"""One record of the log."""
Record: TypeAlias = Row | OffsetCommits
"""A record of a decision, to log and to replay."""
Entry: TypeAlias = Record | TransactionalOffsets | TransactionMarker
"""An entry of the log as it is replayed."""


def new_empty_group_record(group: str, now: int) -> GroupMetadataRecord:
    """The record that creates a group without a generation; `now` in ms since the epoch."""
    return GroupMetadataRecord(
        GroupMetadataKey(group), GroupMetadataValue("", 0, None, None, now, ())
    )


# --- writing ---

_MAX_STRING_BYTES: Final = 2**15 - 1


def too_long(*texts: str, spare: int = 0) -> bool:
    """Whether any text plus `spare` bytes exceeds the maximum string length of this schema.

    Flexible versions of requests allow longer strings than the log.
    """
    limit = _MAX_STRING_BYTES - spare
    return any(4 * len(text) > limit and len(text.encode()) > limit for text in texts)


_GROUP_METADATA_VERSION: Final = struct.pack(">h", 3)
_OFFSET_V4: Final = struct.Struct(">hqi")
_USUAL_OFFSET: Final = struct.Struct(">hqiBq3s16s")
"""v4 without metadata, with a topic id."""
_USUAL_START: Final = b"\x00\x04"
_USUAL_END: Final = struct.Struct(">Bq3s16s")
USUAL_OFFSET_SIZE: Final = _USUAL_OFFSET.size
_USUAL_BYTES: Final = (
    *((0, b"\x00"), (1, b"\x04"), (14, b"\x01")),
    *((23, b"\x01"), (24, b"\x00"), (25, b"\x10")),
)
"""The bytes common to all such values, by position."""
_OFFSET_V1: Final = struct.Struct(">hq")
_TIMESTAMP_NO_TAGS: Final = struct.Struct(">qB")
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tagged field, with tag 0, of 16 bytes."""


def encode(record: Row) -> tuple[bytes, bytes | None]:
    """(key, value) as Kafka 4.4 writes them; the value is None for a tombstone."""
    if isinstance(record, OffsetCommitRecord):
        (group, topic, partition), value = record
        key = offset_key_start(group, topic) + pack_int32(partition)
        return key, None if value is None else pack_offset(*value)
    if isinstance(record, GroupMetadataRecord):
        metadata = record.value
        key = _group_metadata_key(record.key.group)
        return key, None if metadata is None else _group_metadata_value(metadata)
    return consumer_records.encode(record)


def encoded_size(value: GroupMetadataValue) -> int:
    """Size in bytes of the value of a group's record, to compare with the log's limit."""
    return len(_group_metadata_value(value))


def offset_key_start(group: str, topic: str) -> bytes:
    """The key of a committed offset without its last field, the partition (int32)."""
    return b"".join((b"\x00\x01", pack_string(group), pack_string(topic)))


def pack_offsets(
    positions: Sequence[bytes], commit_timestamp: int, topic_id: bytes
) -> Sequence[bytes]:
    """Pack offsets without metadata, as `pack_offset` does.

    Each position is an int64 offset and an int32 leader epoch.
    """
    end = _USUAL_END.pack(1, commit_timestamp, _TOPIC_ID_TAG, topic_id)
    if len(positions) == 1:
        return (_USUAL_START + positions[0] + end,)
    # The bytes between two positions are always the same, so all values are joined and split at
    # the speed of C.
    return _cutter(len(positions)).unpack(_USUAL_START + (end + _USUAL_START).join(positions) + end)


@lru_cache(maxsize=256)
def _cutter(count: int) -> struct.Struct:
    return struct.Struct(f"{_USUAL_OFFSET.size}s" * count)


def are_usual_offsets(values: bytes) -> bool:
    """Whether the bytes are one or more values of v4 without metadata and with a topic id."""
    count, remainder = divmod(len(values), USUAL_OFFSET_SIZE)
    return not remainder and all(
        values[index::USUAL_OFFSET_SIZE] == byte * count for index, byte in _USUAL_BYTES
    )


def pack_offset(
    offset: int,
    leader_epoch: int,
    text: str,
    timestamp: int,
    expires: int = NO_TIMESTAMP,
    topic_id: UUID | None = None,
) -> bytes:
    """The bytes of an `OffsetCommitValue` with these fields, in the log and in memory."""
    if not text and expires == NO_TIMESTAMP and topic_id is not None:
        return _USUAL_OFFSET.pack(
            4, offset, leader_epoch, 1, timestamp, _TOPIC_ID_TAG, _id_bytes(topic_id)
        )
    metadata = text.encode()
    if expires != NO_TIMESTAMP:
        timestamps = struct.pack(">qq", timestamp, expires)
        return _OFFSET_V1.pack(1, offset) + len(metadata).to_bytes(2, "big") + metadata + timestamps
    head = _OFFSET_V4.pack(4, offset, leader_epoch) + pack_varint(len(metadata) + 1) + metadata
    if topic_id is None:
        return head + _TIMESTAMP_NO_TAGS.pack(timestamp, 0)
    return head + timestamp.to_bytes(8, "big", signed=True) + _TOPIC_ID_TAG + topic_id.bytes


@lru_cache(maxsize=1_024)
def _id_bytes(topic_id: UUID) -> bytes:
    return topic_id.bytes


def _group_metadata_key(group: str) -> bytes:
    return b"\x00\x02" + pack_string(group)


def _group_metadata_value(value: GroupMetadataValue) -> bytes:
    parts = [
        _GROUP_METADATA_VERSION,
        pack_string(value.protocol_type),
        pack_int32(value.generation),
        pack_string(value.protocol),
        pack_string(value.leader),
        struct.pack(">qi", value.current_state_timestamp, len(value.members)),
    ]
    for member in value.members:
        parts += (
            pack_string(member.member_id),
            pack_string(member.instance_id),
            pack_string(member.client_id),
            pack_string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            pack_bytes(member.subscription),
            pack_bytes(member.assignment),
        )
    return b"".join(parts)


# --- reading ---


def decode(key: bytes, value: bytes | None) -> Row | None:
    """The record that `encode` or Kafka wrote, None for a type of a protocol that is not served.

    Raises CorruptRecordError if the bytes do not follow the schema.
    """
    try:
        reader = RecordReader(key)
        match type_ := reader.int16():
            case 0 | 1:
                offset_key = OffsetCommitKey(reader.string(), reader.string(), reader.int32())
                return OffsetCommitRecord(
                    offset_key, None if value is None else unpack_offset(value)
                )
            case 2:
                group_key = GroupMetadataKey(reader.string())
                return GroupMetadataRecord(
                    group_key, None if value is None else _read_group_metadata(RecordReader(value))
                )
            case _:
                return consumer_records.decode(type_, reader, value)
    except (struct.error, UnicodeDecodeError) as e:
        raise CorruptRecordError(f"record of __consumer_offsets with key {key[:64]!r}: {e}") from e


def unpack_offset(data: bytes) -> OffsetCommitValue:
    """The value of a committed offset.

    Raises CorruptRecordError if the bytes violate the schema.
    """
    if len(data) == _USUAL_OFFSET.size:
        version, offset, leader_epoch, length, timestamp, tag, topic_id = _USUAL_OFFSET.unpack(data)
        if version == 4 and length == 1 and tag == _TOPIC_ID_TAG:
            return OffsetCommitValue(
                offset, leader_epoch, "", timestamp, NO_TIMESTAMP, _id(topic_id)
            )
    try:
        return _read_offset_commit(RecordReader(data))
    except (struct.error, UnicodeDecodeError) as e:
        raise CorruptRecordError(f"committed offset {data[:64]!r}: {e}") from e


def _read_offset_commit(reader: RecordReader) -> OffsetCommitValue:
    version = reader.version(4)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else NO_TIMESTAMP
    topic_id = reader.tags().get(0)
    return OffsetCommitValue(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp,
        expire_timestamp,
        _id(topic_id) if topic_id is not None and len(topic_id) == 16 else None,
    )


@lru_cache(maxsize=1_024)
def _id(data: bytes) -> UUID:
    return UUID(bytes=data)


def decode_redpanda_group(data: bytes) -> GroupMetadataValue:
    """The value of a group that Redpanda wrote: each member begins with a version of its own.

    Raises CorruptRecordError if the bytes violate the schema. Source: Redpanda's group_metadata.cc.
    """
    try:
        return _read_group_metadata(RecordReader(data), members_have_versions=True)
    except (struct.error, UnicodeDecodeError) as e:
        raise CorruptRecordError(f"group {data[:64]!r}: {e}") from e


def _read_group_metadata(
    reader: RecordReader, *, members_have_versions: bool = False
) -> GroupMetadataValue:
    version = reader.version(4)
    protocol_type, generation = reader.string(), reader.int32()
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    timestamp = reader.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple(
        _read_member(reader, reader.int16() if members_have_versions else version)
        for _ in range(reader.array_length())
    )
    reader.tags()
    return GroupMetadataValue(protocol_type, generation, protocol, leader, timestamp, members)


def _read_member(reader: RecordReader, version: int) -> MemberMetadata:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.data(), reader.data()
    reader.tags()
    return MemberMetadata(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )
