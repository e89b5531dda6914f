"""The records of consumer groups (KIP-848) in `__consumer_offsets`, and their bytes.

| type | key | value |
|---|---|---|
| 3 | group | group epoch, hash of the metadata of subscribed topics |
| 4 | group | metadata of topics as Kafka before 4.1 wrote it; now only its tombstone is written |
| 5 | group, member | the member's own fields: subscription, assignor, timeout |
| 6 | group | epoch and time of the target assignment |
| 7 | group, member | the member's target assignment |
| 8 | group, member | the member's epoch, state and current assignment |
| 16 | group, regular expression | the topics that it matched |

All values have version 0 and are flexible.

Source: ConsumerGroup….json of Kafka's group-coordinator, and records that Kafka 4.4 wrote.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.coordinator_common import CorruptRecordError, RecordReader
from kohort.protocol.packing import (
    pack_compact_array,
    pack_compact_bytes,
    pack_compact_string,
    pack_int16,
    pack_int32,
    pack_int64,
    pack_string,
    pack_varint,
)

Partitions: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Topic id → partitions, at least one per topic."""
AssignedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Topic id → partition → member epoch of its assignment; at least one partition per topic."""


class GroupKey(NamedTuple):
    group: str


class MemberKey(NamedTuple):
    group: str
    member_id: str


class RegularExpressionKey(NamedTuple):
    group: str
    regex: str


class ConsumerGroupMetadataValue(NamedTuple):
    epoch: int
    metadata_hash: int = 0
    """An int64; 0 without topics."""


class ClassicMemberMetadata(NamedTuple):
    """Fields of the JoinGroup of a member with the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in the member's order of preference."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.protocols)

    @property
    def first(self) -> tuple[str, bytes]:
        """The preferred protocol; ("", b"") if there is none."""
        return self.protocols[0] if self.protocols else ("", b"")


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """The fields that a member sends about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Subscribed names, sorted, without duplicates."""
    regex: str = ""
    """"" for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """None for a member of the consumer protocol."""


class TargetAssignmentMetadataValue(NamedTuple):
    epoch: int
    timestamp: int = 0
    """Time of the computation in ms since the epoch; 0: unknown."""


class TargetAssignmentMemberValue(NamedTuple):
    partitions: Partitions


class CurrentMemberAssignmentValue(NamedTuple):
    epoch: int
    previous_epoch: int
    state: int
    """0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS; others are unknown."""
    assigned: AssignedPartitions
    pending_revocation: AssignedPartitions


class RegularExpressionValue(NamedTuple):
    topics: tuple[str, ...]
    """Names of the matched topics, sorted."""
    version: int
    """Version of the topics' metadata for which it was resolved."""
    timestamp: int
    """ms since the epoch."""


class ConsumerGroupMetadataRecord(NamedTuple):
    key: GroupKey
    value: ConsumerGroupMetadataValue | None


class PartitionMetadataRecord(NamedTuple):
    key: GroupKey
    value: bytes | None
    """Not decoded, because it is not used."""


class ConsumerGroupMemberMetadataRecord(NamedTuple):
    key: MemberKey
    value: ConsumerGroupMemberMetadataValue | None


class TargetAssignmentMetadataRecord(NamedTuple):
    key: GroupKey
    value: TargetAssignmentMetadataValue | None


class TargetAssignmentMemberRecord(NamedTuple):
    key: MemberKey
    value: TargetAssignmentMemberValue | None


class CurrentMemberAssignmentRecord(NamedTuple):
    key: MemberKey
    value: CurrentMemberAssignmentValue | None


class RegularExpressionRecord(NamedTuple):
    key: RegularExpressionKey
    value: RegularExpressionValue | None


ConsumerGroupRecord: TypeAlias = (
    ConsumerGroupMetadataRecord
    | PartitionMetadataRecord
    | ConsumerGroupMemberMetadataRecord
    | TargetAssignmentMetadataRecord
    | TargetAssignmentMemberRecord
    | CurrentMemberAssignmentRecord
    | RegularExpressionRecord
)


# --- writing ---

_VERSION: Final = b"\x00\x00"
_NO_TAGS: Final = b"\x00"
_CONSUMER_MEMBER: Final = b"\x01\x00\x01\x00"
"""One tagged field, with tag 0: no metadata of a classic member. Without the field, Kafka reads an
empty classic member.
"""
_NOT_NULL: Final = b"\x01"
_CURRENT_ASSIGNMENT: Final = Struct(">hiib")


def encode(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """(key, value) as Kafka 4.4 writes them; the value is None for a tombstone."""
    type_, write = _WRITERS[type(record)]
    key = pack_int16(type_) + b"".join(map(pack_string, record.key))
    return key, None if record.value is None else write(record.value)


def _write_group(value: ConsumerGroupMetadataValue) -> bytes:
    tags = _int64_tag(value.metadata_hash)
    return _VERSION + pack_int32(value.epoch) + tags


def _write_member(value: ConsumerGroupMemberMetadataValue) -> bytes:
    return b"".join(
        (
            _VERSION,
            pack_compact_string(value.instance_id),
            pack_compact_string(value.rack_id),
            pack_compact_string(value.client_id),
            pack_compact_string(value.client_host),
            _strings(value.topics),
            pack_compact_string(value.regex),
            pack_int32(value.rebalance_timeout_ms),
            pack_compact_string(value.assignor),
            _CONSUMER_MEMBER if value.classic is None else _classic_tag(value.classic),
        )
    )


def _classic_tag(value: ClassicMemberMetadata) -> bytes:
    parts = [
        _NOT_NULL,
        pack_int32(value.session_timeout_ms),
        pack_compact_array(len(value.protocols)),
    ]
    for name, metadata in value.protocols:
        parts += (pack_compact_string(name), pack_compact_bytes(metadata), _NO_TAGS)
    return _tag(b"".join((*parts, _NO_TAGS)))


def _write_target_metadata(value: TargetAssignmentMetadataValue) -> bytes:
    return _VERSION + pack_int32(value.epoch) + _int64_tag(value.timestamp)


def _write_target(value: TargetAssignmentMemberValue) -> bytes:
    parts = [_VERSION, pack_compact_array(len(value.partitions))]
    for topic_id, partitions in value.partitions.items():
        parts += (topic_id.bytes, _int32s(partitions), _NO_TAGS)
    return b"".join((*parts, _NO_TAGS))


def _write_current(value: CurrentMemberAssignmentValue) -> bytes:
    return b"".join(
        (
            _CURRENT_ASSIGNMENT.pack(0, value.epoch, value.previous_epoch, value.state),
            _assigned(value.assigned),
            _assigned(value.pending_revocation),
            _NO_TAGS,
        )
    )


def _assigned(assigned: AssignedPartitions) -> bytes:
    parts = [pack_compact_array(len(assigned))]
    for topic_id, epochs in assigned.items():
        parts += (topic_id.bytes, _int32s(epochs), _tag(_int32s(epochs.values())))
    return b"".join(parts)


def _write_regex(value: RegularExpressionValue) -> bytes:
    numbers = pack_int64(value.version) + pack_int64(value.timestamp)
    return b"".join((_VERSION, _strings(value.topics), numbers, _NO_TAGS))


def _write_bytes(value: bytes) -> bytes:
    return value


_WRITERS: Final[Mapping[type, tuple[int, Callable[[Any], bytes]]]] = {
    ConsumerGroupMetadataRecord: (3, _write_group),
    PartitionMetadataRecord: (4, _write_bytes),
    ConsumerGroupMemberMetadataRecord: (5, _write_member),
    TargetAssignmentMetadataRecord: (6, _write_target_metadata),
    TargetAssignmentMemberRecord: (7, _write_target),
    CurrentMemberAssignmentRecord: (8, _write_current),
    RegularExpressionRecord: (16, _write_regex),
}


def _strings(values: Sequence[str]) -> bytes:
    return b"".join((pack_compact_array(len(values)), *map(pack_compact_string, values)))


def _int32s(values: Collection[int]) -> bytes:
    return pack_compact_array(len(values)) + Struct(f">{len(values)}i").pack(*values)


def _tag(content: bytes) -> bytes:
    """Encode the only tagged field of a structure, with tag 0."""
    return b"".join((b"\x01\x00", pack_varint(len(content)), content))


def _int64_tag(value: int) -> bytes:
    return _tag(pack_int64(value)) if value else _NO_TAGS


# --- reading ---


def decode(type_: int, key: RecordReader, value: bytes | None) -> ConsumerGroupRecord | None:
    """The record with a key of this type, None for other types than those of consumer groups.

    Raises CorruptRecordError, struct.error and UnicodeDecodeError if the bytes do not follow the
    schema.
    """
    reader_of_type = _READERS.get(type_)
    if reader_of_type is None:
        return None
    record, key_class, read = reader_of_type
    names = key_class(*(key.string() for _ in key_class._fields))
    decoded: ConsumerGroupRecord = record(names, None if value is None else read(value))
    return decoded


def _read_group(data: bytes) -> ConsumerGroupMetadataValue:
    reader = _value(data)
    return ConsumerGroupMetadataValue(reader.int32(), _int64_of(reader.tags()))


def _read_member(data: bytes) -> ConsumerGroupMemberMetadataValue:
    reader = _value(data)
    return ConsumerGroupMemberMetadataValue(
        reader.nullable_string(),
        reader.nullable_string(),
        reader.string(),
        reader.string(),
        _read_strings(reader),
        reader.nullable_string() or "",
        reader.int32(),
        reader.nullable_string(),
        _read_classic(reader.tags().get(0)),
    )


def _read_classic(data: bytes | None) -> ClassicMemberMetadata | None:
    if data is None:
        return ClassicMemberMetadata(0, ())
    reader = RecordReader(data, flexible=True)
    if reader.int8() != 1:  # null
        return None
    timeout = reader.int32()
    return ClassicMemberMetadata(
        timeout, tuple(_read_protocol(reader) for _ in range(reader.array_length()))
    )


def _read_protocol(reader: RecordReader) -> tuple[str, bytes]:
    name, metadata = reader.string(), reader.data()
    reader.tags()
    return name, metadata


def _read_target_metadata(data: bytes) -> TargetAssignmentMetadataValue:
    reader = _value(data)
    return TargetAssignmentMetadataValue(reader.int32(), _int64_of(reader.tags()))


def _read_target(data: bytes) -> TargetAssignmentMemberValue:
    reader = _value(data)
    partitions: dict[UUID, tuple[int, ...]] = {}
    for _ in range(reader.array_length()):
        topic_id, numbers = reader.uuid(), reader.int32s()
        reader.tags()
        if numbers:
            partitions[topic_id] = numbers
    reader.tags()
    return TargetAssignmentMemberValue(partitions)


def _read_current(data: bytes) -> CurrentMemberAssignmentValue:
    reader = _value(data)
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending = _read_assigned(reader, epoch), _read_assigned(reader, epoch)
    reader.tags()
    return CurrentMemberAssignmentValue(epoch, previous, state, assigned, pending)


def _read_assigned(reader: RecordReader, member_epoch: int) -> AssignedPartitions:
    """Partitions with their epochs; the member's epoch in records before Kafka 4.3."""
    assigned: dict[UUID, Mapping[int, int]] = {}
    for _ in range(reader.array_length()):
        topic_id, partitions = reader.uuid(), reader.int32s()
        tag = reader.tags().get(0)
        epochs = () if tag is None else RecordReader(tag, flexible=True).int32s()
        if len(epochs) != len(partitions):
            epochs = (max(member_epoch, 0),) * len(partitions)
        if partitions:
            assigned[topic_id] = dict(zip(partitions, epochs, strict=True))
    return assigned


def _read_regex(data: bytes) -> RegularExpressionValue:
    reader = _value(data)
    value = RegularExpressionValue(_read_strings(reader), reader.int64(), reader.int64())
    reader.tags()
    return value


def _read_bytes(data: bytes) -> bytes:
    return data


_READERS: Final[Mapping[int, tuple[Any, Any, Callable[[bytes], Any]]]] = {
    3: (ConsumerGroupMetadataRecord, GroupKey, _read_group),
    4: (PartitionMetadataRecord, GroupKey, _read_bytes),
    5: (ConsumerGroupMemberMetadataRecord, MemberKey, _read_member),
    6: (TargetAssignmentMetadataRecord, GroupKey, _read_target_metadata),
    7: (TargetAssignmentMemberRecord, MemberKey, _read_target),
    8: (CurrentMemberAssignmentRecord, MemberKey, _read_current),
    16: (RegularExpressionRecord, RegularExpressionKey, _read_regex),
}
"""Type of the key → class of the record, class of the key, reader of the value."""


def _value(data: bytes) -> RecordReader:
    reader = RecordReader(data)
    reader.version(0)
    return reader


def _read_strings(reader: RecordReader) -> tuple[str, ...]:
    return tuple(reader.string() for _ in range(reader.array_length()))


def _int64_of(tags: Mapping[int, bytes]) -> int:
    """The int64 in tag 0, 0 without it."""
    data = tags.get(0)
    if data is None:
        return 0
    if len(data) != 8:
        raise CorruptRecordError(f"{len(data)} bytes where an int64 must stand")
    return int.from_bytes(data, "big", signed=True)
