"""DeleteRecords (21) v0-2: records before an offset are gone for readers at once (KIP-107).

Offset -1 means all there are now. The versions differ in encoding only.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.base import LogMaintenance
from kohort.server.config import waits_for_disk
from kohort.server.handlers.chunked import CHUNK, Steps, respond_in_chunks, respond_in_thread
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import DeleteRecordsRequest

ALL = -1


Partitions: TypeAlias = list[dict[str, Any]]


def handle(
    services: Services, exchange: Exchange, request: "DeleteRecordsRequest"
) -> Coroutine[Any, Any, None] | None:
    deleted: list[tuple[dict[str, Any], LogMaintenance]] = []
    steps = _steps(services, exchange, request, deleted)
    if waits_for_disk(services.config):
        return _respond_when_durable(services, exchange, steps, deleted)
    return respond_in_chunks(services, exchange, steps)


def _steps(
    services: Services,
    exchange: Exchange,
    request: "DeleteRecordsRequest",
    deleted: list[tuple[dict[str, Any], LogMaintenance]],
) -> Steps:
    """`deleted` receives the partitions of the response whose records are deleted."""
    access = services.access(exchange)
    topics: list[dict[str, Any]] = []
    for topic in request.topics:
        # Of two offsets for one partition Kafka takes the last, and responds once.
        offsets: dict[int, int] = {}
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
            yield
        partitions: Partitions = []
        allowed = access.topic(topic.name)
        for index, offset in offsets.items():
            partitions.append(
                _respond(services, topic.name, index, offset) if allowed else _refused(index)
            )
            log = services.topics.log(topic.name, index)
            if log is not None and "error_code" not in partitions[-1]:
                deleted.append((partitions[-1], log))
            yield
        topics.append({"name": topic.name, "partitions": partitions})
        yield
    return {"topics": topics}


async def _respond_when_durable(
    services: Services,
    exchange: Exchange,
    steps: Steps,
    deleted: list[tuple[dict[str, Any], LogMaintenance]],
) -> None:
    fields = await in_slices(steps)
    outcomes: list[BaseException | None] = []
    for start in range(0, len(deleted), CHUNK):
        batch = (log.durable() for _, log in deleted[start : start + CHUNK])
        outcomes += await asyncio.gather(*batch, return_exceptions=True)
    for (partition, _), outcome in zip(deleted, outcomes, strict=True):
        if isinstance(outcome, KafkaError | OSError):
            code = ErrorCode.kafka_storage_error
            partition |= {
                "low_watermark": -1,
                "error_code": outcome.code if isinstance(outcome, KafkaError) else code,
            }
        elif outcome is not None:
            raise fresh(outcome)
    await respond_in_thread(services, exchange, fields)


def _refused(partition: int) -> dict[str, Any]:
    error = ErrorCode.topic_authorization_failed
    return {"partition_index": partition, "low_watermark": -1, "error_code": error}


def _respond(services: Services, topic: str, partition: int, offset: int) -> dict[str, Any]:
    try:
        return {
            "partition_index": partition,
            "low_watermark": _delete(services, topic, partition, offset),
        }
    except KafkaError as error:
        return {"partition_index": partition, "low_watermark": -1, "error_code": error.code}


def _delete(services: Services, topic: str, partition: int, offset: int) -> int:
    """Returns the offset that the log starts with now."""
    log, existing = services.topics.log(topic, partition), services.topics.get(topic)
    if log is None or existing is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if "delete" not in existing.effective["cleanup.policy"]:
        raise KafkaError(
            ErrorCode.policy_violation,
            "Only of topics with the policy delete records are deleted.",
        )
    if offset < ALL:
        raise KafkaError(ErrorCode.offset_out_of_range)
    try:
        log.ensure_open()
        if offset > log.high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range)
        log.trim(log.high_watermark if offset == ALL else offset)
    except OSError as error:
        raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
    return log.start_offset
