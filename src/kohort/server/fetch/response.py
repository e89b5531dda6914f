"""Encoder for the Fetch response: records go from the log into it without being copied.

`pack` gives, byte for byte, what kio writes for `FetchResponse` (a test compares all versions).
Throttle times are 0, and there are no preferred replicas.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, TypeAlias

from kohort.errors import ErrorCode
from kohort.log.aborted_index import AbortedTransaction
from kohort.log.stores import FileSlice, Records
from kohort.protocol.apis import BY_NAME
from kohort.protocol.packing import (
    pack_array,
    pack_compact_array,
    pack_compact_string,
    pack_int16,
    pack_int32,
    pack_string,
    pack_uuid,
    pack_varint,
)
from kohort.server.cluster import NO_LEADERS, CurrentLeaders
from kohort.server.fetch.reading import UNKNOWN_ERRORS, FetchPartitionData, TopicKey

Pieces: TypeAlias = list[Records]

_SMALL_BYTES: Final = 4_096
_MAX_JOINED: Final = 4_096

SESSIONS_SINCE: Final = 7
FLEXIBLE_SINCE: Final = BY_NAME["fetch"].first_flexible
TOPIC_IDS_SINCE: Final = 13
CURRENT_LEADER_SINCE: Final = 16

_THROTTLE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"
_NO_PREFERRED_REPLICA: Final = pack_int32(-1)
_ABORTED: Final = Struct(">qq").pack
_FLEXIBLE_ABORTED: Final = Struct(">qqB").pack
_V4: Final = Struct(">ihqq").pack
_V5: Final = Struct(">ihqqq").pack
_DIVERGING: Final = Struct(">3siqB").pack
"""One tagged field: tag 0 of 13 bytes, an EpochEndOffset."""

_CURRENT_LEADER: Final = 1
"""Tag of the current leader."""

_TAILS: Final = {
    (version, listed): (
        # aborted transactions: null, or an empty list
        (
            pack_compact_array(0 if listed else -1)
            if version >= FLEXIBLE_SINCE
            else pack_array(0 if listed else -1)
        )
        + (_NO_PREFERRED_REPLICA if version >= 11 else b"")
    )
    for version in range(4, 19)
    for listed in (False, True)
}
"""Fields between offsets and records, by version and whether aborted transactions are listed."""


def pack(
    version: int,
    fetched: Iterable[FetchPartitionData],
    *,
    session_id: int = 0,
    moved: CurrentLeaders = NO_LEADERS,
) -> Pieces:
    """FetchResponse v4-18, in pieces: the records among them are those of the log.

    `moved` are leaders that are named, from `CURRENT_LEADER_SINCE` on.
    """
    topics: dict[TopicKey, list[FetchPartitionData]] = {}
    for data in fetched:
        topics.setdefault(data.request.topic, []).append(data)
    flexible = version >= FLEXIBLE_SINCE
    parts: Pieces = [_head(version, ErrorCode.none, session_id, len(topics))]
    for topic, partitions in topics.items():
        count = pack_compact_array(len(partitions)) if flexible else pack_array(len(partitions))
        parts += (_topic(version, topic), count)
        for data in partitions:
            _add_partition(parts, version, data, moved)
        if flexible:
            parts.append(_NO_TAGS)
    if flexible:
        parts.append(moved.node_endpoints())
    return parts


def joined(pieces: Sequence[Records]) -> Pieces:
    """Join small pieces; large ones are not copied."""
    pieces_joined: Pieces = []
    small: list[bytes | memoryview] = []
    for piece in pieces:
        if len(piece) <= _SMALL_BYTES and not isinstance(piece, FileSlice):
            small.append(piece)
            if len(small) < _MAX_JOINED:
                continue
            pieces_joined.append(b"".join(small))
            small = []
        else:
            pieces_joined += (b"".join(small), piece)
            small = []
    pieces_joined.append(b"".join(small))
    return pieces_joined


def pack_error(version: int, error: ErrorCode) -> bytes:
    """FetchResponse v7-18 to a request whose session is at fault: no topics."""
    return _head(version, error, 0, 0) + (_NO_TAGS if version >= FLEXIBLE_SINCE else b"")


def _head(version: int, error: ErrorCode, session_id: int, topics: int) -> bytes:
    count = pack_compact_array(topics) if version >= FLEXIBLE_SINCE else pack_array(topics)
    if version < SESSIONS_SINCE:
        return _THROTTLE + count
    return b"".join((_THROTTLE, pack_int16(error), pack_int32(session_id), count))


def _topic(version: int, topic: TopicKey) -> bytes:
    if isinstance(topic, str):
        return pack_compact_string(topic) if version >= FLEXIBLE_SINCE else pack_string(topic)
    return pack_uuid(topic)


def _add_partition(
    parts: Pieces, version: int, data: FetchPartitionData, moved: CurrentLeaders
) -> None:
    request, error, high_watermark, log_start_offset, records, diverging, _, stable, aborted = data
    if version >= 5:
        numbers = _V5(request.partition, error, high_watermark, stable, log_start_offset)
    else:
        numbers = _V4(request.partition, error, high_watermark, stable)
    listed = error in UNKNOWN_ERRORS or aborted is not None
    tail = _tail(version, aborted) if aborted else _TAILS[version, listed]
    if version >= FLEXIBLE_SINCE:
        tags = _NO_TAGS
        if diverging:
            tags = _DIVERGING(b"\1\0\x0d", *diverging, 0)
        elif error:
            tags = moved.tags((request.topic, request.partition), _CURRENT_LEADER)
        parts += (numbers, tail, pack_varint(len(records) + 1), records, tags)
    else:
        parts += (numbers, tail, pack_int32(len(records)), records)


def _tail(version: int, aborted: Sequence[AbortedTransaction]) -> bytes:
    """Encode the fields between offsets and records, with these aborted transactions."""
    if version >= FLEXIBLE_SINCE:
        parts = [pack_compact_array(len(aborted))]
        parts += [
            _FLEXIBLE_ABORTED(transaction.producer_id, transaction.first_offset, 0)
            for transaction in aborted
        ]
    else:
        parts = [pack_array(len(aborted))]
        parts += [
            _ABORTED(transaction.producer_id, transaction.first_offset) for transaction in aborted
        ]
    if version >= 11:
        parts.append(_NO_PREFERRED_REPLICA)
    return b"".join(parts)
