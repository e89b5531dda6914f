"""Parsers for the most frequent requests, which read them straight from their bytes.

They are a second implementation of `messages.decode_request` for usual requests. They return None
for all others (long or missing strings, tagged fields, text that is not UTF-8, too few bytes),
which `decode_request` then reads or refuses. A test compares both.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias
from uuid import UUID

from kohort.protocol.packing import read_varint

_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from

Member: TypeAlias = tuple[str, int, str, str | None]
"""(group id, generation, member id, instance id), the fields with which a member identifies itself.
"""

Columns: TypeAlias = tuple[bytes, Sequence[int], Sequence[bytes]]
"""One topic of an OffsetCommit: its name, or from v10 its id, as bytes.

Then its partitions, and for each the encoded int64 offset and int32 leader epoch.
"""

_HEARTBEAT_INSTANCE_ID_SINCE: Final = 3
_HEARTBEAT_FLEXIBLE_SINCE: Final = 4


def read_heartbeat(data: bytes, start: int, version: int) -> Member | None:
    """The fields of a HeartbeatRequest v0-4; before v3 the instance id is None."""
    if version >= _HEARTBEAT_FLEXIBLE_SINCE:
        return read_member(data, start)
    try:
        group_size = _int16(data, start)[0]
        generation_at = start + 2 + group_size
        member_size = _int16(data, generation_at + 4)[0]
        member_at = generation_at + 6
        instance_at = end = member_at + member_size
        if group_size < 0 or member_size < 0:
            return None
        instance_id = None
        if version >= _HEARTBEAT_INSTANCE_ID_SINCE:
            instance_size = _int16(data, instance_at)[0]
            if instance_size >= 0:
                end = instance_at + 2 + instance_size
                instance_id = str(data[instance_at + 2 : end], "utf-8")
            elif instance_size < -1:
                return None
        if end > len(data):
            return None
        return (
            str(data[start + 2 : generation_at], "utf-8"),
            _int32(data, generation_at)[0],
            str(data[member_at:instance_at], "utf-8"),
            instance_id,
        )
    except (struct_error, UnicodeDecodeError):
        return None


def read_member(data: bytes, start: int) -> Member | None:
    """The fields of a member in compact encoding, with empty tags behind them."""
    try:
        # A compact string of up to 126 bytes has its length, plus one, in one byte; 0 is null.
        size = data[start]
        generation_at = start + size
        member_at = generation_at + 4
        member_size = data[member_at]
        instance_at = member_at + member_size
        instance_size = data[instance_at]
        tags_at = instance_at + (instance_size or 1)
        if not size or not member_size or size | member_size | instance_size > 127 or data[tags_at]:
            return None
        return (
            str(data[start + 1 : generation_at], "utf-8"),
            _int32(data, generation_at)[0],
            str(data[member_at + 1 : instance_at], "utf-8"),
            str(data[instance_at + 1 : tags_at], "utf-8") if instance_size else None,
        )
    except (IndexError, UnicodeDecodeError):
        return None


_NOTHING_NEW: Final = {
    0: (bytes.fromhex("00 ffffffff 00 00 00 00"),),
    1: (bytes.fromhex("00 ffffffff 00 00 00 00 00"), bytes.fromhex("00 ffffffff 00 01 00 00 00")),
}
"""By version: bytes after the instance id of a ConsumerGroupHeartbeat without optional fields.

The fields are rack, rebalance timeout, names, regular expression (v1), assignor, partitions and
tags. librdkafka always has a regular expression, an empty one.
"""


def read_steady_heartbeat(data: bytes, start: int, version: int) -> Member | None:
    """(group id, member epoch, member id, instance id) of a ConsumerGroupHeartbeatRequest v0-1.

    None also if it has other fields.
    """
    try:
        member_at = start + data[start]
        epoch_at = member_at + data[member_at]
        instance_at = epoch_at + 4
        end = instance_at + (data[instance_at] or 1)
        sizes = data[start], data[member_at], data[instance_at]
        if not sizes[0] or not sizes[1] or max(sizes) > 127:
            return None
        if data[end:] not in _NOTHING_NEW[version]:
            return None
        return (
            str(data[start + 1 : member_at], "utf-8"),
            _int32(data, epoch_at)[0],
            str(data[member_at + 1 : epoch_at], "utf-8"),
            str(data[instance_at + 1 : end], "utf-8") if sizes[2] else None,
        )
    except (IndexError, UnicodeDecodeError):
        return None


SingleBatch: TypeAlias = tuple[int, str | UUID, int, bytes]
"""(acks, name or from v13 id of the topic, partition, records) of a ProduceRequest."""

_PRODUCE_TOPIC_IDS_SINCE: Final = 13
_TAGS_OF_ALL: Final = bytes(3)
"""Empty tags of the partition, the topic and the request."""


def read_single_batch(data: bytes, offset_in_data: int, version: int) -> SingleBatch | None:
    """The fields of a ProduceRequest v9-13 for one partition, without a transactional id."""
    try:
        # null, acks, timeout, and one topic, whose count is stored plus one
        if data[offset_in_data] or data[offset_in_data + 7] != 2:
            return None
        key: str | UUID
        if version >= _PRODUCE_TOPIC_IDS_SINCE:
            end = offset_in_data + 24
            key = UUID(bytes=data[offset_in_data + 8 : end])
        else:
            size = data[offset_in_data + 8]
            end = offset_in_data + 8 + size
            if not 0 < size < 128:
                return None
            key = str(data[offset_in_data + 9 : end], "utf-8")
        if data[end] != 2:  # one partition
            return None
        size, start = read_varint(data, end + 5)
        stop = start + size - 1
        if not size or data[stop : stop + 3] != _TAGS_OF_ALL:
            return None
        return _int16(data, offset_in_data + 1)[0], key, _int32(data, end + 1)[0], data[start:stop]
    except (IndexError, ValueError):  # of text that is not UTF-8, or a long length
        return None


_NO_TAGS: Final = b"\0"
OFFSET_BYTES: Final = 18
"""Size of a partition in an OffsetCommit v8-10 without metadata and tags: partition, offset and
leader epoch, then a byte each for the metadata (null or empty) and the tags.
"""
_MAX_PARTITIONS: Final = 1_000
"""Maximum partitions per topic for this reader; it caches one layout per number of them."""


def read_offset_commit(
    data: bytes, offset_in_data: int, *, by_id: bool
) -> tuple[bytes, list[Columns], int] | None:
    """(member, topics, end) of an OffsetCommitRequest v8-10; v10 names topics by id.

    The member stays encoded: `read_member` reads these bytes. Partitions are unsigned here, so a
    negative one is larger than any that exists. The end is the offset behind the request.
    """
    try:
        member_at = offset_in_data + data[offset_in_data] + 4
        instance_at = member_at + data[member_at]
        topics_at = instance_at + (data[instance_at] or 1)
        count = data[topics_at] - 1
        if not 0 < count < 127:
            return None
        topics: list[Columns] = []
        position = topics_at + 1
        for _ in range(count):
            start, end = (
                (position, position + 16) if by_id else (position + 1, position + data[position])
            )
            many, first = data[end] - 1, end + 1
            if many > 126:
                many, first = (many - 127 | data[first] << 7) - 1, first + 1
            if (
                not 0 < many <= _MAX_PARTITIONS
                or data[first - 1] > 127
                or (data[position] > 127 and not by_id)
            ):
                return None
            offsets = read_offsets(data, first, many)
            if offsets is None:
                return None
            key = data[start:end]
            if not by_id:
                str(key, "utf-8")  # raises for bytes that `decode_request` would replace
            topics.append((key, *offsets))
            position = first + OFFSET_BYTES * many + 1
        return (
            None
            if data[position]
            else (data[offset_in_data:topics_at] + _NO_TAGS, topics, position + 1)
        )
    except (IndexError, UnicodeDecodeError, struct_error):
        return None


def read_offsets(
    data: bytes, first: int, count: int
) -> tuple[Sequence[int], Sequence[bytes]] | None:
    """(partitions, positions) of a topic in an OffsetCommitRequest v8-10.

    None with metadata or tags.

    Raises struct.error or IndexError if the data end early.
    """
    end = first + OFFSET_BYTES * count
    if (
        data[end]
        or data[first + 16 : end : 18].strip(b"\0\1")
        or data[first + 17 : end : 18].strip(b"\0")
    ):
        return None
    fields = _offsets(count).unpack_from(data, first)
    return fields[::2], fields[1::2]


@lru_cache(maxsize=128)
def _offsets(count: int) -> Struct:
    return Struct(">" + "I12s2x" * count)
