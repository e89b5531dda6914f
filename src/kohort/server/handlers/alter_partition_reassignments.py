"""AlterPartitionReassignments (45) v0-1: replicas stay where they are (KIP-455).

A reassignment to this broker, which is the only one, is done at once; any other is refused. v1 can
forbid a change of the replication factor, which cannot happen here.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode, KafkaError
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import REFUSAL
from kohort.server.handlers.replica_assignments import validate_replicas
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import AlterPartitionReassignmentsRequest, ReassignablePartition


def handle(
    services: Services, exchange: Exchange, request: "AlterPartitionReassignmentsRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        return respond_in_chunks(services, exchange, _refused(request))
    return respond_in_chunks(services, exchange, _steps(services, request))


def _refused(request: "AlterPartitionReassignmentsRequest") -> Steps:
    responses = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append({"partition_index": partition.partition_index, **REFUSAL})
            yield
        responses.append({"name": topic.name, "partitions": partitions})
        yield
    return {**REFUSAL, "responses": responses}


def _steps(services: Services, request: "AlterPartitionReassignmentsRequest") -> Steps:
    responses = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(_result(services, topic.name, partition))
            yield
        responses.append({"name": topic.name, "partitions": partitions})
        yield
    return {
        "allow_replication_factor_change": getattr(
            request, "allow_replication_factor_change", True
        ),
        "error_message": None if responses else "",
        "responses": responses,
    }


def _result(services: Services, name: str, partition: "ReassignablePartition") -> dict[str, Any]:
    result = {"partition_index": partition.partition_index}
    try:
        _validate(services, name, partition)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message or None}
    return result | {"error_code": ErrorCode.none, "error_message": None}


def _validate(services: Services, name: str, partition: "ReassignablePartition") -> None:
    if services.topics.get(name) is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}."
        )
    if services.topics.log(name, partition.partition_index) is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition,
            f"Unable to find partition {name}:{partition.partition_index}.",
        )
    if partition.replicas is None:  # cancels a reassignment
        raise KafkaError(ErrorCode.no_reassignment_in_progress)
    validate_replicas(partition.replicas, services.nodes.ids)
