"""Encoder for the Produce response, which is sent for every batch that is written.

`pack` gives, byte for byte, what kio writes for `ProduceResponse` (a test compares all versions).
Throttle times are 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.protocol.batch_validation import RecordError
from kohort.protocol.packing import (
    pack_array,
    pack_compact_array,
    pack_compact_string,
    pack_int32,
    pack_string,
    pack_uuid,
)
from kohort.server.cluster import NO_LEADERS, CurrentLeaders

_THROTTLE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"
FLEXIBLE_SINCE: Final = BY_NAME["produce"].first_flexible
CURRENT_LEADER_SINCE: Final = 10
TOPIC_IDS_SINCE: Final = 13
_CURRENT_LEADER: Final = 0
"""Tag of the current leader."""

_V3: Final = Struct(">ihqq").pack
_V5: Final = Struct(">ihqqq").pack
_NO_ERRORS: Final = pack_array(0) + pack_string(None)
_NO_ERRORS_FLEXIBLE: Final = pack_compact_array(0) + pack_compact_string(None) + _NO_TAGS
_ONE: Final = pack_compact_array(1)
_END_OF_ONE: Final = _NO_ERRORS_FLEXIBLE + _NO_TAGS + _THROTTLE + _NO_TAGS


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


TopicProduceResponse: TypeAlias = tuple[str | UUID | None, list[PartitionProduceResponse]]
"""Name, from v13 on id, of a topic, and the results of its partitions."""


def pack(
    version: int, topics: Sequence[TopicProduceResponse], moved: CurrentLeaders = NO_LEADERS
) -> bytes:
    """ProduceResponse v3-13; `moved` are leaders that are named, from `CURRENT_LEADER_SINCE` on."""
    if version >= FLEXIBLE_SINCE and len(topics) == 1:
        topic, partitions = topics[0]
        if len(partitions) == 1 and not partitions[0].error:  # nearly all are
            name = pack_compact_string(topic) if isinstance(topic, str) else pack_uuid(topic)
            return b"".join((_ONE, name, _ONE, _V5(*partitions[0][:5]), _END_OF_ONE))
    return b"".join(parts(version, topics, moved))


def parts(
    version: int, topics: Sequence[TopicProduceResponse], moved: CurrentLeaders = NO_LEADERS
) -> Iterator[bytes]:
    """The bytes of `pack`, some for each partition."""
    flexible = version >= FLEXIBLE_SINCE
    pack_count = pack_compact_array if flexible else pack_array
    yield pack_count(len(topics))
    for topic, partitions in topics:
        if not isinstance(topic, str):
            yield pack_uuid(topic)
        else:
            yield pack_compact_string(topic) if flexible else pack_string(topic)
        yield pack_count(len(partitions))
        if flexible:
            yield from _flexible(topic, partitions, moved)
            yield _NO_TAGS
        else:
            yield from _legacy(version, partitions)
    yield _THROTTLE
    if flexible:
        yield moved.node_endpoints()


def _legacy(version: int, partitions: Iterable[PartitionProduceResponse]) -> Iterable[bytes]:
    for result in partitions:
        yield _V3(*result[:4]) if version < 5 else _V5(*result[:5])
        if version >= 8:
            yield _legacy_errors(result)


def _legacy_errors(result: PartitionProduceResponse) -> bytes:
    if not result.error:
        return _NO_ERRORS
    errors = [pack_int32(index) + pack_string(message) for index, message in result.record_errors]
    return b"".join((pack_array(len(errors)), *errors, pack_string(result.message)))


def _flexible(
    topic: str | UUID | None, partitions: Iterable[PartitionProduceResponse], moved: CurrentLeaders
) -> Iterable[bytes]:
    for result in partitions:
        yield _V5(*result[:5])
        yield _flexible_errors(result)
        if result.error:
            yield moved.tags((topic, result.partition), _CURRENT_LEADER)


def _flexible_errors(result: PartitionProduceResponse) -> bytes:
    if not result.error:
        return _NO_ERRORS_FLEXIBLE
    errors = [
        pack_int32(index) + pack_compact_string(message) + _NO_TAGS
        for index, message in result.record_errors
    ]
    return b"".join((pack_compact_array(len(errors)), *errors, pack_compact_string(result.message)))
