"""DescribeProducers (61) v0: the producers that partitions remember (KIP-664)."""

from collections.abc import Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.log.producer_states import ActiveProducer
from kohort.server.authorization import Access
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.metadata import storage_error, validate_name
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeProducersRequest

MAX_REPEATED: Final = 10_000
"""Producers of a response after which a partition is not described again."""


def handle(
    services: Services, exchange: Exchange, request: "DescribeProducersRequest"
) -> Coroutine[Any, Any, None] | None:
    return respond_in_chunks(services, exchange, _steps(services, exchange, request))


def _steps(services: Services, exchange: Exchange, request: "DescribeProducersRequest") -> Steps:
    access = services.access(exchange)
    topics = []
    described: set[tuple[str, int]] = set()
    count = 0
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            repeated = count > MAX_REPEATED and (topic.name, index) in described
            described.add((topic.name, index))
            partitions.append(
                (yield from _described(services, access, topic.name, index, repeated))
            )
            count += len(partitions[-1].get("active_producers", ()))
            yield
        topics.append({"name": topic.name, "partitions": partitions})
        yield
    return {"topics": topics}


def _described(
    services: Services, access: Access, name: str, index: int, repeated: bool
) -> Generator[None, None, dict[str, Any]]:
    result: dict[str, Any] = {"partition_index": index}
    try:
        if repeated:
            raise KafkaError(ErrorCode.invalid_request, "The partition is named again.")
        if not access.topic(name):
            raise KafkaError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
        producers = _log_producers(services, name, index)
    except OSError as failure:
        return result | _refusal(storage_error(failure))
    except KafkaError as error:
        return result | _refusal(error)
    active = []
    for producer in producers:
        active.append(
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_start,
            }
        )
        yield
    return result | {"error_code": ErrorCode.none, "active_producers": active}


def _refusal(error: KafkaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.message or None}


def _log_producers(services: Services, name: str, index: int) -> Iterator[ActiveProducer]:
    validate_name(name)
    if services.topics.get(name) is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    log = services.topics.log(name, index)
    if log is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return log.active_producers()
