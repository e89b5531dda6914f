"""Encoder for the Produce response, which is sent for every batch that is written.

`pack` gives, byte for byte, what kio writes for `ProduceResponse` (a test compares all versions).
Throttle times are 0.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.protocol.batch_validation import RecordError
from kohort.protocol.packing import (
    pack_array,
    pack_compact_array,
    pack_compact_string,
    pack_int32,
    pack_string,
    pack_uuid,
)

_THROTTLE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_IDS: Final = 13

_V3: Final = Struct(">ihqq").pack
_V5: Final = Struct(">ihqqq").pack
_NO_ERRORS: Final = pack_array(0) + pack_string(None)
_NO_ERRORS_FLEXIBLE: Final = pack_compact_array(0) + pack_compact_string(None) + _NO_TAGS


class PartitionProduceResponse(NamedTuple):
    """The result of one partition; -1 stands for an offset or time that does not exist."""

    partition: int
    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    append_time: int = -1
    """ms, where the log stamps the records."""
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    message: str | None = None


def pack(
    version: int, topics: Sequence[tuple[str | UUID | None, Sequence[PartitionProduceResponse]]]
) -> bytes:
    """ProduceResponse v3-13; topics by name, from v13 on by id."""
    if version < FIRST_FLEXIBLE:
        parts = [pack_array(len(topics))]
        for name, partitions in topics:
            assert isinstance(name, str)
            parts += (pack_string(name), pack_array(len(partitions)), *_legacy(version, partitions))
        parts.append(_THROTTLE)
        return b"".join(parts)
    parts = [pack_compact_array(len(topics))]
    for topic, partitions in topics:
        head = pack_compact_string(topic) if isinstance(topic, str) else pack_uuid(topic)
        parts += (head, pack_compact_array(len(partitions)), *_flexible(partitions), _NO_TAGS)
    parts += (_THROTTLE, _NO_TAGS)
    return b"".join(parts)


def _legacy(version: int, partitions: Iterable[PartitionProduceResponse]) -> Iterable[bytes]:
    for each in partitions:
        yield _V3(*each[:4]) if version < 5 else _V5(*each[:5])
        if version >= 8:
            yield _legacy_errors(each)


def _legacy_errors(each: PartitionProduceResponse) -> bytes:
    if not each.error:
        return _NO_ERRORS
    errors = [pack_int32(index) + pack_string(message) for index, message in each.record_errors]
    return b"".join((pack_array(len(errors)), *errors, pack_string(each.message)))


def _flexible(partitions: Iterable[PartitionProduceResponse]) -> Iterable[bytes]:
    for each in partitions:
        yield _V5(*each[:5])
        yield _flexible_errors(each)


def _flexible_errors(each: PartitionProduceResponse) -> bytes:
    if not each.error:
        return _NO_ERRORS_FLEXIBLE
    errors = [
        pack_int32(index) + pack_compact_string(message) + _NO_TAGS
        for index, message in each.record_errors
    ]
    return b"".join(
        (pack_compact_array(len(errors)), *errors, pack_compact_string(each.message), _NO_TAGS)
    )
