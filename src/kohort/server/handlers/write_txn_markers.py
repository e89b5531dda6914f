"""WriteTxnMarkers (27) v1-2: ends transactions in partitions, without their coordinator (KIP-98).

Brokers send it, and administrators for a transaction that hangs (KIP-664). v1 is flexible, v2 has
the transaction version, which decides on the epochs that are accepted (KIP-890).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.runtime.markers import Marker
from kohort.server.authorization import CLUSTER, CLUSTER_ACTION
from kohort.server.handlers.chunked import respond_large
from kohort.server.metadata import storage_error
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import WritableTxnMarkerTopic, WriteTxnMarkersRequest

NO_PRODUCER: Final = -1
"""The producer id, and the epoch, of batches without a producer."""


async def handle(services: Services, exchange: Exchange, request: "WriteTxnMarkersRequest") -> None:
    access = services.access(exchange)
    allowed = access.may(CLUSTER_ACTION, CLUSTER, log_if_denied=False) or access.cluster()
    results = []
    slices = TimeSlices()
    count = 0
    for requested in request.markers:
        marker = Marker(
            requested.producer_id,
            requested.producer_epoch,
            requested.transaction_result,
            getattr(requested, "transaction_version", 0),
            requested.coordinator_epoch,
        )
        topics = [
            (topic.name, await _write(services, marker, topic, slices, allowed=allowed))
            for topic in requested.topics
        ]
        count += 1 + sum(1 + len(errors) for _, errors in topics)
        results.append((requested.producer_id, topics))

    def fields() -> dict[str, Any]:
        return {"markers": [_result(*result) for result in results]}

    await respond_large(services, exchange, fields, count)


async def _write(
    services: Services,
    marker: Marker,
    topic: "WritableTxnMarkerTopic",
    slices: TimeSlices,
    *,
    allowed: bool,
) -> list[tuple[int, ErrorCode]]:
    errors = []
    for index in topic.partition_indexes:
        error = ErrorCode.none
        try:
            if not allowed:
                raise KafkaError(ErrorCode.cluster_authorization_failed)
            _validate(marker)
            await services.markers.write(TopicPartition(topic.name, index), marker)
        except KafkaError as failure:
            error = failure.code
        except OSError as failure:
            error = storage_error(failure).code
        errors.append((index, error))
        await slices.give_way()
    return errors


def _validate(marker: Marker) -> None:
    """Raise KafkaError UNKNOWN_SERVER_ERROR, as Kafka does, for a marker that ends nothing."""
    no_producer = NO_PRODUCER in (marker.producer_id, marker.producer_epoch)
    if no_producer or marker.transaction_version < 0:
        raise KafkaError(ErrorCode.unknown_server_error)


def _result(
    producer_id: int, topics: Sequence[tuple[str, Sequence[tuple[int, ErrorCode]]]]
) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "error_code": error} for index, error in errors
                ],
            }
            for name, errors in topics
        ],
    }
