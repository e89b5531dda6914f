"""The requests that come most often by far, read straight from their bytes.

A second way to what `messages.decode_request` reads, taken only for what is quite usual: None
stands for everything else (long or missing strings, tagged fields, text that is no UTF-8, too few
bytes), which the first way reads or refuses. A test holds both ways against each other.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias

_int32 = Struct(">i").unpack_from

Columns: TypeAlias = tuple[bytes, Sequence[int], Sequence[bytes]]
"""Of one topic of an OffsetCommit: its name, or from v10 its id, as bytes; its partitions; and for
each of them the int64 offset and the int32 leader epoch, as they came.
"""


def read_heartbeat(data: bytes, at: int) -> tuple[str, int, str, str | None] | None:
    """(group id, generation, member id, instance id) of a HeartbeatRequest v4."""
    try:
        # A compact string of up to 126 bytes has its length, plus one, in one byte; 0 is null.
        size = data[at]
        generation_at = at + size
        member_at = generation_at + 4
        member_size = data[member_at]
        instance_at = member_at + member_size
        instance_size = data[instance_at]
        tags_at = instance_at + (instance_size or 1)
        if not size or not member_size or size | member_size | instance_size > 127 or data[tags_at]:
            return None
        return (
            str(data[at + 1 : generation_at], "utf-8"),
            _int32(data, generation_at)[0],
            str(data[member_at + 1 : instance_at], "utf-8"),
            str(data[instance_at + 1 : tags_at], "utf-8") if instance_size else None,
        )
    except (IndexError, UnicodeDecodeError):
        return None


_NO_TAGS: Final = b"\0"
OFFSET_BYTES: Final = 18
"""Of a partition in an OffsetCommit v8-10 without metadata and tags: partition, offset and leader
epoch, then a byte each for the metadata (null or empty) and the tags.
"""
_MANY: Final = 1_000
"""Partitions of a topic in one request; for each number a layout is kept."""


def read_offset_commit(
    data: bytes, at: int, *, by_id: bool
) -> tuple[bytes, list[Columns], int] | None:
    """(who commits, the topics, where it ends) of an OffsetCommitRequest v8-10; v10 names topics by
    id.

    Who commits is told as in a heartbeat: these bytes, and no tags behind them, are what
    `read_heartbeat` reads. Partitions are unsigned here: a negative one is larger than any that
    exists.
    """
    try:
        member_at = at + data[at] + 4
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
                not 0 < many <= _MANY
                or data[first - 1] > 127
                or (data[position] > 127 and not by_id)
            ):
                return None
            offsets = read_offsets(data, first, many)
            if offsets is None:
                return None
            key = data[start:end]
            if not by_id:
                # raises where it is none, as a name's characters are replaced then
                str(key, "utf-8")
            topics.append((key, *offsets))
            position = first + OFFSET_BYTES * many + 1
        return None if data[position] else (data[at:topics_at] + _NO_TAGS, topics, position + 1)
    except (IndexError, UnicodeDecodeError, struct_error):
        return None


def read_offsets(
    data: bytes, first: int, count: int
) -> tuple[Sequence[int], Sequence[bytes]] | None:
    """The partitions and positions of a topic in an OffsetCommitRequest v8-10 that has no tags;
    None if one has metadata or tags. Raises struct.error or IndexError if the data end early.
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
