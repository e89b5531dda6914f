"""OffsetForLeaderEpoch (23) v2-4: where an epoch of a partition's leader ended (KIP-101, KIP-320).

v3 says who asks, which makes no difference without replicas; v4 is flexible. Who may act as a
broker may ask about every topic.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode, KafkaError
from kohort.server.authorization import CLUSTER, CLUSTER_ACTION
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.net import Exchange
from kohort.server.replicas import validate_leader_epoch
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import OffsetForLeaderEpochRequest


def handle(
    services: Services, exchange: Exchange, request: "OffsetForLeaderEpochRequest"
) -> Coroutine[Any, Any, None] | None:
    return respond_in_chunks(services, exchange, _steps(services, exchange, request))


def _steps(services: Services, exchange: Exchange, request: "OffsetForLeaderEpochRequest") -> Steps:
    access = services.access(exchange)
    is_broker = access.may(CLUSTER_ACTION, CLUSTER, log_if_denied=False)
    topics = []
    for topic in request.topics:
        allowed = is_broker or access.topic(topic.topic)
        partitions = []
        for partition in topic.partitions:
            partitions.append(
                _end(services, topic.topic, partition)
                if allowed
                else _failed(partition.partition, ErrorCode.topic_authorization_failed)
            )
            yield
        topics.append({"topic": topic.topic, "partitions": partitions})
        yield
    return {"topics": topics}


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {"partition": partition, "error_code": error}


def _end(services: Services, topic: str, requested: Any) -> dict[str, Any]:
    log = services.topics.log(topic, requested.partition)
    if log is None:
        return _failed(requested.partition, ErrorCode.unknown_topic_or_partition)
    if error := validate_leader_epoch(requested.current_leader_epoch, log):
        return _failed(requested.partition, error)
    try:
        log.ensure_open()
    except KafkaError as failure:
        return _failed(requested.partition, failure.code)
    # An epoch that never was has no end: both are -1.
    end = log.leader_epochs.end_of(requested.leader_epoch, log.start_offset, log.end_offset)
    return {
        "partition": requested.partition,
        "error_code": ErrorCode.none,
        "leader_epoch": end.epoch,
        "end_offset": end.end_offset,
    }
