"""DeleteRecords (21) v0-2: records before an offset are gone for readers at once (KIP-107).

Offset -1 means all there are now. The versions differ in encoding only.
"""

from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services

API_KEY = 21
ALL = -1


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    topics = []
    for topic in request.topics:
        # Of two offsets for one partition Kafka takes the last, and responds once.
        offsets = {each.partition_index: each.offset for each in topic.partitions}
        results = [
            _respond(services, topic.name, partition, before)
            for partition, before in offsets.items()
        ]
        topics.append({"name": topic.name, "partitions": results})
    exchange.respond(response(API_KEY, exchange.version, topics=topics))


def _respond(services: Services, topic: str, partition: int, before: int) -> dict[str, Any]:
    try:
        return {
            "partition_index": partition,
            "low_watermark": _delete(services, topic, partition, before),
        }
    except KafkaError as error:
        return {"partition_index": partition, "low_watermark": -1, "error_code": error.code}


def _delete(services: Services, topic: str, partition: int, before: int) -> int:
    """Returns the offset that the log starts with now."""
    log, found = services.topics.log(topic, partition), services.topics.get(topic)
    if log is None or found is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if "delete" not in found.effective["cleanup.policy"]:
        raise KafkaError(
            ErrorCode.policy_violation,
            "Only of topics with the policy delete records are deleted.",
        )
    if before < ALL:
        raise KafkaError(ErrorCode.offset_out_of_range)
    try:
        log.trim(log.end_offset if before == ALL else before)
    except OSError as error:
        raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
    return log.start_offset
