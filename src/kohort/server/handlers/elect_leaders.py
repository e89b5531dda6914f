"""ElectLeaders (43) v0-2: never needed, as the one replica of each partition is its leader.

v1 has a type of election (KIP-460) and an error of the whole response; v2 is flexible. Asked for
all partitions, Kafka names topics, and only partitions whose leader changed.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import REFUSAL
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ElectLeadersRequest

PREFERRED, UNCLEAN = 0, 1
TYPES: Final = frozenset({PREFERRED, UNCLEAN})


def handle(
    services: Services, exchange: Exchange, request: "ElectLeadersRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        return respond_in_chunks(services, exchange, _refused(request))
    election = getattr(request, "election_type", PREFERRED)
    return respond_in_chunks(services, exchange, _steps(services, request, election))


def _refused(request: "ElectLeadersRequest") -> Steps:
    results = []
    for requested in request.topic_partitions or ():
        partitions = []
        for index in requested.partitions:
            partitions.append({"partition_id": index, **REFUSAL})
            yield
        results.append({"topic": requested.topic, "partition_result": partitions})
        yield
    error = ErrorCode.cluster_authorization_failed
    return {"error_code": error, "replica_election_results": results}


def _steps(services: Services, request: "ElectLeadersRequest", election: int) -> Steps:
    results: list[dict[str, Any]] = []
    if request.topic_partitions is None:
        for topic in tuple(services.topics.all()):
            results.append({"topic": topic.name, "partition_result": ()})
            yield
    for requested in request.topic_partitions or ():
        partitions = []
        for index in requested.partitions:
            code, message = _outcome(services, requested.topic, index, election)
            partitions.append({"partition_id": index, "error_code": code, "error_message": message})
            yield
        results.append({"topic": requested.topic, "partition_result": partitions})
        yield
    refused = election not in TYPES
    return {
        "error_code": ErrorCode.invalid_request if refused else ErrorCode.none,
        "replica_election_results": results,
    }


def _outcome(services: Services, name: str, index: int, election: int) -> tuple[ErrorCode, str]:
    if election not in TYPES:
        return ErrorCode.invalid_request, f"Unknown election type {election}"
    if services.topics.get(name) is None:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {name}"
    if services.topics.log(name, index) is None:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{index}"
    return ErrorCode.election_not_needed, "Leader election not needed for topic partition."
