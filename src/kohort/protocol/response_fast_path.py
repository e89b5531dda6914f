"""Encoders for responses that are so frequent or so large that object construction dominates.

Each function returns the body of one response version, byte for byte what kio writes for it (a test
compares them all). Throttle times are 0: no client is throttled.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from uuid import UUID

from kohort.protocol.packing import (
    pack_array,
    pack_bytes,
    pack_compact_array,
    pack_compact_bytes,
    pack_compact_string,
    pack_int16,
    pack_int32,
    pack_string,
    pack_uuid,
    pack_varint,
)

_THROTTLE = b"\0\0\0\0"
_NO_TAGS = b"\0"
_pack_result = Struct(">ih").pack
_pack_flexible_result = Struct(">ihx").pack


@lru_cache(maxsize=256)
def heartbeat(version: int, error: int) -> bytes:
    """HeartbeatResponse v0-4."""
    body = pack_int16(error)
    if version >= 1:
        body = _THROTTLE + body
    return body + _NO_TAGS if version >= 4 else body


@lru_cache(maxsize=256)
def heartbeat_frame(version: int, error: int) -> tuple[bytes, bytes]:
    """A whole frame of `heartbeat` without its correlation id: the bytes before and behind that."""
    behind = (_NO_TAGS if version >= 4 else b"") + heartbeat(version, error)
    return pack_int32(4 + len(behind)), behind


_pack_steady = Struct(">iiBx").pack
_NO_ASSIGNMENT = 0xFF


def steady_heartbeat(member_id: str, member_epoch: int, interval_ms: int) -> bytes:
    """ConsumerGroupHeartbeatResponse v0-1 without an error and without an assignment."""
    end = _pack_steady(member_epoch, interval_ms, _NO_ASSIGNMENT)
    return _THROTTLE + b"\0\0\0" + pack_compact_string(member_id) + end


def steady_heartbeat_frame(
    member_id: str, member_epoch: int, interval_ms: int
) -> tuple[bytes, bytes]:
    """A whole frame of `steady_heartbeat`: the bytes before and behind its correlation id."""
    behind = _NO_TAGS + steady_heartbeat(member_id, member_epoch, interval_ms)
    return pack_int32(4 + len(behind)), behind


def sync_group(
    version: int,
    error: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """SyncGroupResponse v0-5."""
    if version < 4:
        return (_THROTTLE if version >= 1 else b"") + pack_int16(error) + pack_bytes(assignment)
    names = (
        pack_compact_string(protocol_type) + pack_compact_string(protocol_name)
        if version >= 5
        else b""
    )
    return b"".join((_THROTTLE, pack_int16(error), names, pack_compact_bytes(assignment), _NO_TAGS))


def join_group(
    version: int,
    *,
    error: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> list[bytes]:
    """JoinGroupResponse v0-9, in pieces; `members` are (id, instance id, metadata).

    Before v7 a missing protocol name is encoded as "".
    """
    head = pack_int16(error) + pack_int32(generation)
    if version >= 2:
        head = _THROTTLE + head
    if version < 6:
        text = pack_string
        parts = [
            head,
            text(protocol_name or ""),
            text(leader),
            text(member_id),
            pack_array(len(members)),
        ]
        for joined_id, instance_id, metadata in members:
            parts += (text(joined_id), text(instance_id) if version >= 5 else b"")
            parts += (pack_int32(len(metadata)), metadata)
        return parts
    text = pack_compact_string
    names = text(protocol_type) + text(protocol_name) if version >= 7 else text(protocol_name or "")
    skip = bytes((skip_assignment,)) if version >= 9 else b""
    parts = [head, names, text(leader), skip, text(member_id), pack_compact_array(len(members))]
    for joined_id, instance_id, metadata in members:
        size = pack_varint(len(metadata) + 1)
        parts += (text(joined_id), text(instance_id), size, metadata, _NO_TAGS)
    parts.append(_NO_TAGS)
    return parts


def offset_commit(
    version: int, topics: Sequence[tuple[str, UUID | None, Iterable[tuple[int, int]]]]
) -> bytes:
    """OffsetCommitResponse v2-10; `topics` are (name, topic id, (partition, error)...).

    v10 has the id instead of the name.
    """
    if version < 8:
        parts = [_THROTTLE if version >= 3 else b"", pack_array(len(topics))]
        for name, _, partitions in topics:
            results = [_pack_result(partition, error) for partition, error in partitions]
            parts += (pack_string(name), pack_array(len(results)), *results)
        return b"".join(parts)
    parts = [_THROTTLE, pack_compact_array(len(topics))]
    for name, topic_id, partitions in topics:
        results = [_pack_flexible_result(partition, error) for partition, error in partitions]
        head = pack_uuid(topic_id) if version >= 10 else pack_compact_string(name)
        parts += (head, pack_compact_array(len(results)), *results, _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def txn_offset_commit(
    version: int, topics: Sequence[tuple[str, UUID | None, Iterable[tuple[int, int]]]]
) -> bytes:
    """TxnOffsetCommitResponse v0-6, which has the fields of an OffsetCommitResponse."""
    return offset_commit(10 if version >= 6 else 8 if version >= 3 else 3, topics)


def offset_commit_columns(
    version: int, topics: Sequence[tuple[bytes, Sequence[int], object]], error: int
) -> bytes:
    """`offset_commit` v8-10 with one error for all partitions.

    `topics` are (name, or from v10 id, as bytes; partitions; anything).
    """
    parts = [_THROTTLE, pack_compact_array(len(topics))]
    result = pack_int16(error) + _NO_TAGS
    for key, partitions, _ in topics:
        if version < 10:
            parts.append(pack_varint(len(key) + 1))
        results = result.join(map(pack_int32, partitions))
        parts += (key, pack_compact_array(len(partitions)), results, result, _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)
