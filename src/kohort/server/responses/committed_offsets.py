"""Topics of an OffsetFetch response (v2-10), encoded in slices: a group may have a million offsets.

A test compares the bytes of every version with kio's.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from struct import Struct
from typing import Final
from uuid import UUID

from kohort.coordinator.responses import FetchedOffset
from kohort.protocol.apis import BY_NAME
from kohort.protocol.packing import (
    pack_array,
    pack_compact_array,
    pack_compact_string,
    pack_int16,
    pack_string,
    pack_uuid,
)
from kohort.util.time_slice import TimeSlices

LEADER_EPOCH_SINCE: Final = 5
FLEXIBLE_SINCE: Final = BY_NAME["offset_fetch"].first_flexible
TOPIC_IDS_SINCE: Final = 10
_CHUNK: Final = 256
_NUMBERS: Final = Struct(">iqi").pack
_NUMBERS_WITHOUT_EPOCH: Final = Struct(">iq").pack
_TAGS: Final = b"\0"
_NO_ERROR: Final = b"\0\0"


async def pack_topics(
    version: int,
    offsets: Iterable[FetchedOffset],
    topic_id: Callable[[str], UUID | None],
    slices: TimeSlices,
    errors: set[int],
) -> list[bytes]:
    """The array of topics with these offsets, in pieces; offsets of one topic follow each other.

    From v10 on, topics without an id are left out. `errors` receives the errors of the offsets.
    """
    pieces: list[bytes] = []
    count = 0
    for name, of_topic in groupby(offsets, lambda offset: offset.topic):
        known_id = topic_id(name) if version >= TOPIC_IDS_SINCE else None
        if known_id is None and version >= TOPIC_IDS_SINCE:
            continue
        count += 1
        packed, partitions = await _pack_partitions(version, of_topic, slices, errors)
        pieces.append(_topic_head(version, name, known_id) + _array(version, partitions))
        pieces += packed
        if version >= FLEXIBLE_SINCE:
            pieces.append(_TAGS)
    return [_array(version, count), *pieces]


async def _pack_partitions(
    version: int, offsets: Iterable[FetchedOffset], slices: TimeSlices, errors: set[int]
) -> tuple[list[bytes], int]:
    """The pieces of a topic's partitions, and their number."""
    pieces: list[bytes] = []
    chunk: list[bytes] = []
    count = 0
    for fetched in offsets:
        chunk.append(_pack_partition(version, fetched))
        if fetched.error:
            errors.add(fetched.error)
        if len(chunk) == _CHUNK:
            pieces.append(b"".join(chunk))
            count += _CHUNK
            chunk.clear()
            await slices.give_way()
    return [*pieces, b"".join(chunk)], count + len(chunk)


def _pack_partition(version: int, fetched: FetchedOffset) -> bytes:
    error = pack_int16(fetched.error) if fetched.error else _NO_ERROR
    if version >= FLEXIBLE_SINCE:
        numbers = _NUMBERS(fetched.partition, fetched.offset, fetched.leader_epoch)
        return b"".join((numbers, pack_compact_string(fetched.metadata), error, _TAGS))
    if version >= LEADER_EPOCH_SINCE:
        numbers = _NUMBERS(fetched.partition, fetched.offset, fetched.leader_epoch)
    else:
        numbers = _NUMBERS_WITHOUT_EPOCH(fetched.partition, fetched.offset)
    return b"".join((numbers, pack_string(fetched.metadata), error))


def _topic_head(version: int, name: str, topic_id: UUID | None) -> bytes:
    if topic_id is not None:
        return pack_uuid(topic_id)
    return pack_compact_string(name) if version >= FLEXIBLE_SINCE else pack_string(name)


def _array(version: int, count: int) -> bytes:
    return pack_compact_array(count) if version >= FLEXIBLE_SINCE else pack_array(count)
