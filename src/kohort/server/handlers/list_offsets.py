"""ListOffsets (2) v1-11: offsets by timestamp, or by one of the names for ends of the log.

v2 has the isolation level (there are no transactions: both see the same), v4 leader epochs, v7 the
largest timestamp (KIP-734), v8 the earliest local and v9 the latest tiered offset (KIP-405,
KIP-1005), v10 a timeout, v11 the earliest offset that waits for upload (KIP-1023). Nothing is
tiered here: all of it is local.
"""

from collections import Counter
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.server.topics import LEADER_EPOCH, judge

API_KEY = 2


class SpecialTimestamp(IntEnum):
    """Timestamps that are names (Kafka's ListOffsetsRequest)."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


FIRST_VERSION: Final[dict[int, int]] = {
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


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    times = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    topics: dict[str, dict[int, dict[str, Any]]] = {}
    for topic in request.topics:
        found_by_partition = topics.setdefault(topic.name, {})
        for each in topic.partitions:
            twice = times[topic.name, each.partition_index] > 1
            found = (
                ListedOffset(error_code=ErrorCode.invalid_request)
                if twice
                else _find(services, exchange, topic.name, each)
            )
            found_by_partition[each.partition_index] = {
                "partition_index": each.partition_index,
                **found._asdict(),
            }
    exchange.respond(
        response(
            API_KEY,
            exchange.version,
            topics=[
                {"name": name, "partitions": found_by_partition.values()}
                for name, found_by_partition in topics.items()
                if found_by_partition
            ],
        )
    )


def _find(services: Services, exchange: Exchange, topic: str, wanted: Any) -> ListedOffset:
    log = services.topics.log(topic, wanted.partition_index)
    if log is None:
        return ListedOffset(error_code=ErrorCode.unknown_topic_or_partition)
    if wanted.timestamp < 0 and exchange.version < FIRST_VERSION.get(
        wanted.timestamp, exchange.version + 1
    ):
        return ListedOffset(error_code=ErrorCode.unsupported_version)
    error = judge(getattr(wanted, "current_leader_epoch", -1))
    if error:
        return ListedOffset(error_code=error)
    try:
        return find(log, wanted.timestamp)
    except KafkaError as failure:
        return ListedOffset(error_code=failure.code)
    except OSError:
        return ListedOffset(error_code=ErrorCode.kafka_storage_error)


def find(log: Log, timestamp: int) -> ListedOffset:
    """The offset that `timestamp`, or a name for one, stands for in `log`.

    Raises KafkaError, OSError.
    """
    log.ensure_open()
    match timestamp:
        case SpecialTimestamp.LATEST:
            return ListedOffset(log.high_watermark, leader_epoch=LEADER_EPOCH)
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            return ListedOffset(log.start_offset, leader_epoch=LEADER_EPOCH)
        case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            return ListedOffset()
        case SpecialTimestamp.MAX_TIMESTAMP:
            place = log.max_timestamp()
        case _:
            place = log.offset_for_timestamp(timestamp)
    if place is None or place[0] >= log.high_watermark:  # as in Kafka: no consumer can read it yet
        return ListedOffset()
    return ListedOffset(*place, leader_epoch=LEADER_EPOCH)
