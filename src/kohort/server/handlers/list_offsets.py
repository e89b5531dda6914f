"""ListOffsets (2) v1-11: offsets by timestamp, or by one of the names for ends of the log.

v2 has the isolation level, v4 leader epochs, v7 the largest timestamp (KIP-734), v8 the earliest
local and v9 the latest tiered offset (KIP-405, KIP-1005), v10 a timeout, v11 the earliest offset
that waits for upload (KIP-1023). Nothing is tiered here: all of it is local. Readers of committed
records get no offset beyond the last stable one.
"""

from collections import Counter
from collections.abc import Coroutine, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogReader
from kohort.runtime.lookups import look_up
from kohort.server.fetch import READ_COMMITTED
from kohort.server.handlers.chunked import (
    CHUNK,
    Steps,
    count_in_chunks,
    respond_in_chunks,
    respond_large,
)
from kohort.server.net import Exchange
from kohort.server.replicas import validate_leader_epoch
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import ListOffsetsPartition, ListOffsetsRequest


class SpecialTimestamp(IntEnum):
    """Timestamps that are names (Kafka's ListOffsetsRequest)."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


SPECIAL_TIMESTAMP_SINCE: Final[dict[int, int]] = {
    SpecialTimestamp.LATEST: 1,
    SpecialTimestamp.EARLIEST: 1,
    SpecialTimestamp.MAX_TIMESTAMP: 7,
    SpecialTimestamp.EARLIEST_LOCAL: 8,
    SpecialTimestamp.LATEST_TIERED: 9,
    SpecialTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}
"""Version from which on a name is understood; other negative timestamps never are."""


class ListedOffset(NamedTuple):
    """The offset of one partition; -1 is Kafka's "none"."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
    error_code: ErrorCode = ErrorCode.none


Placed: TypeAlias = dict[tuple[str, int], ListedOffset]
"""Results of lookups by topic and partition; none is looked up twice."""


def handle(
    services: Services, exchange: Exchange, request: "ListOffsetsRequest"
) -> Coroutine[Any, Any, None] | None:
    """Respond at once with ends of logs; records are looked for in slices."""
    if sum(1 + len(topic.partitions) for topic in request.topics) > CHUNK or any(
        _is_search(partition.timestamp)
        for topic in request.topics
        for partition in topic.partitions
    ):
        return _look_up_and_respond(services, exchange, request)
    times = Counter(_named(request))
    return respond_in_chunks(services, exchange, _steps(services, exchange, request, times, {}))


def _named(request: "ListOffsetsRequest") -> Iterator[tuple[str, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.name, partition.partition_index


async def _look_up_and_respond(
    services: Services, exchange: Exchange, request: "ListOffsetsRequest"
) -> None:
    slices, times = TimeSlices(), await count_in_chunks(_named(request))
    access = services.access(exchange)
    placed: Placed = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            searched = _is_search(partition.timestamp) and times[key] == 1
            if searched and access.topic(topic.name):
                placed[key] = await _look_up(
                    services, exchange, request, topic.name, partition, slices
                )
            await slices.give_way()
    fields = await in_slices(_steps(services, exchange, request, times, placed))
    await respond_large(services, exchange, fields, len(request.topics) + len(times))


def _steps(
    services: Services,
    exchange: Exchange,
    request: "ListOffsetsRequest",
    times: Counter[tuple[str, int]],
    placed: Placed,
) -> Steps:
    topics: dict[str, dict[int, dict[str, Any]]] = {}
    access = services.access(exchange)
    for topic in request.topics:
        offsets = topics.setdefault(topic.name, {})
        allowed = access.topic(topic.name)
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            if not allowed:
                listed = ListedOffset(error_code=ErrorCode.topic_authorization_failed)
            elif times[key] > 1:
                listed = ListedOffset(error_code=ErrorCode.invalid_request)
            else:
                listed = placed.get(key) or _find(
                    services, exchange, request, topic.name, partition
                )
            offsets[partition.partition_index] = {
                "partition_index": partition.partition_index,
                **listed._asdict(),
            }
            yield
    entries = []
    for name, offsets in topics.items():
        if offsets:
            entries.append({"name": name, "partitions": offsets.values()})
        yield
    return {"topics": entries}


async def _look_up(
    services: Services,
    exchange: Exchange,
    request: "ListOffsetsRequest",
    topic: str,
    partition: "ListOffsetsPartition",
    slices: TimeSlices,
) -> ListedOffset:
    try:
        log = _log(services, exchange, topic, partition)
        steps = (
            log.max_timestamp()
            if partition.timestamp == SpecialTimestamp.MAX_TIMESTAMP
            else log.offset_for_timestamp(partition.timestamp)
        )
        position = await look_up(steps, slices, services.heavy_work)
        readable_end = _readable_end(log, request)
    except (KafkaError, OSError) as failure:
        return _failed(failure)
    # As in Kafka: the consumer cannot read from there on yet.
    if position is None or position[0] >= readable_end:
        return ListedOffset()
    return ListedOffset(*position, leader_epoch=log.leader_epochs.at(position[0]))


def _find(
    services: Services,
    exchange: Exchange,
    request: "ListOffsetsRequest",
    topic: str,
    partition: "ListOffsetsPartition",
) -> ListedOffset:
    try:
        return _end_of(_log(services, exchange, topic, partition), partition.timestamp, request)
    except (KafkaError, OSError) as failure:
        return _failed(failure)


def _failed(failure: KafkaError | OSError) -> ListedOffset:
    code = failure.code if isinstance(failure, KafkaError) else ErrorCode.kafka_storage_error
    return ListedOffset(error_code=code)


def _log(
    services: Services, exchange: Exchange, topic: str, partition: "ListOffsetsPartition"
) -> LogReader:
    """The log to look into. Raises KafkaError with the partition's code."""
    log = services.topics.log(topic, partition.partition_index)
    if log is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if partition.timestamp < 0 and exchange.version < SPECIAL_TIMESTAMP_SINCE.get(
        partition.timestamp, exchange.version + 1
    ):
        raise KafkaError(ErrorCode.unsupported_version)
    error = validate_leader_epoch(getattr(partition, "current_leader_epoch", -1), log)
    if error:
        raise KafkaError(error)
    log.ensure_open()
    return log


def _readable_end(log: LogReader, request: "ListOffsetsRequest") -> int:
    """The offset up to which the client reads. Raises KafkaError, OSError."""
    is_committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    return log.last_stable_offset if is_committed else log.high_watermark


def _is_search(timestamp: int) -> bool:
    """Whether records are looked for, and not an end of the log."""
    return timestamp >= 0 or timestamp == SpecialTimestamp.MAX_TIMESTAMP


def _end_of(log: LogReader, timestamp: int, request: "ListOffsetsRequest") -> ListedOffset:
    """The end of `log` that is named by `timestamp`."""
    match timestamp:
        case SpecialTimestamp.LATEST:
            return ListedOffset(_readable_end(log, request), leader_epoch=log.leader_epoch)
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            start = log.start_offset
            return ListedOffset(start, leader_epoch=log.leader_epochs.at(start))
        case _:  # LATEST_TIERED, EARLIEST_PENDING_UPLOAD
            return ListedOffset()
