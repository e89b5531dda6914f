"""CreatePartitions (37) v0-3: more partitions for a topic; never fewer.

v3 knows THROTTLING_QUOTA_EXCEEDED (KIP-599). Consumers learn of the new partitions from their
next Metadata. The number of partitions of `__consumer_offsets` decides where a group lives, so it
cannot grow. A request that adds more than 10,000 partitions in all is refused, as in Kafka.
"""

from collections.abc import Generator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.controller import NewPartitions, too_many_partitions
from kohort.server.handlers.chunked import (
    collect_in_chunks,
    count_in_chunks,
    deadline_of,
    respond_large,
)
from kohort.server.handlers.replica_assignments import validate_replicas
from kohort.server.net import Exchange
from kohort.server.replicas import Topic
from kohort.server.services import Services
from kohort.server.throttling import Mutations
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

THROTTLING_SINCE: Final = 3


async def handle(
    services: Services, exchange: Exchange, request: "CreatePartitionsRequest"
) -> None:
    times = await count_in_chunks(topic.name for topic in request.topics)
    strict = exchange.version >= THROTTLING_SINCE
    mutations = services.throttling.mutations(exchange, strict=strict)
    deadline = deadline_of(request)
    await services.controller.writer.catch_up(deadline)
    topics = await collect_in_chunks(
        request.topics, lambda topic: topic if times[topic.name] == 1 else None
    )
    results = await _results(services, exchange, request, topics, mutations, deadline)
    results += await collect_in_chunks(
        times, lambda name: _duplicate(name) if times[name] > 1 else None
    )
    await respond_large(services, exchange, {"results": results}, len(results))


def _duplicate(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "error_code": ErrorCode.invalid_request,
        "error_message": "Duplicate topic name.",
    }


async def _results(
    services: Services,
    exchange: Exchange,
    request: "CreatePartitionsRequest",
    topics: Sequence[Any],
    mutations: Mutations,
    deadline: float,
) -> list[dict[str, Any]]:
    slices, excess = TimeSlices(), await in_slices(_excess(services, topics))
    refused: list[KafkaError | None] = []
    for topic in topics:
        refused.append(_refusal(services, exchange, request, topic, excess, mutations))
        await slices.give_way()
    if not request.validate_only:
        refused = await _grown(services, topics, refused, deadline)
    return await collect_in_chunks(zip(topics, refused, strict=True), _entry)


def _entry(outcome: tuple[Any, KafkaError | None]) -> dict[str, Any]:
    topic, error = outcome
    if error is None:
        return {"name": topic.name, "error_code": ErrorCode.none}
    return {"name": topic.name, "error_code": error.code, "error_message": error.message or None}


def _excess(services: Services, topics: Sequence[Any]) -> Generator[None, None, KafkaError | None]:
    """The error of all topics if together they would get too many partitions for one request."""
    added = 0
    for requested in topics:
        topic = services.topics.get(requested.name)
        added += 0 if topic is None else max(0, requested.count - len(topic.partitions))
        yield
    return too_many_partitions(added)


def _refusal(
    services: Services,
    exchange: Exchange,
    request: "CreatePartitionsRequest",
    requested: "CreatePartitionsTopic",
    excess: KafkaError | None,
    mutations: Mutations,
) -> KafkaError | None:
    """Validate the growth of one topic; returns its error, None if there is none so far."""
    try:
        if not services.access(exchange).topic(requested.name):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if request.timeout.total_seconds() <= 0:
            raise KafkaError(ErrorCode.request_timed_out)
        if excess is not None:
            return excess
        _validate(services, requested, mutations)
    except KafkaError as error:
        return error.with_traceback(None)  # which refers to the list that has the error
    return None


async def _grown(
    services: Services,
    topics: Sequence[Any],
    refused: Sequence[KafkaError | None],
    deadline: float,
) -> list[KafkaError | None]:
    """Have those topics grow that are not refused; in the same order why one did not."""
    growths = await collect_in_chunks(zip(topics, refused, strict=True), _growth)
    try:
        grown = iter(await services.controller.topics.create_partitions(growths, deadline))
    except KafkaError as error:
        grown = repeat(error.with_traceback(None))
    outcomes, slices = list[KafkaError | None](), TimeSlices()
    for refusal in refused:
        outcome = next(grown) if refusal is None else refusal
        outcomes.append(None if isinstance(outcome, Topic) else outcome)
        await slices.give_way()
    return outcomes


def _growth(outcome: tuple[Any, KafkaError | None]) -> NewPartitions | None:
    topic, error = outcome
    return NewPartitions(topic.name, topic.count) if error is None else None


def _validate(services: Services, requested: "CreatePartitionsTopic", mutations: Mutations) -> None:
    if services.topics.get(requested.name) is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    topic = services.controller.replication.validate_growth(requested.name, requested.count)
    if topic.internal:
        raise KafkaError(
            ErrorCode.policy_violation, (f"The number of partitions of {topic.name} is fixed.")
        )
    added = requested.count - len(topic.partitions)
    if requested.assignments is not None:
        _validate_assignments(services, requested.assignments, added)
    if not mutations.admits(added):
        raise KafkaError(ErrorCode.throttling_quota_exceeded)


def _validate_assignments(
    services: Services, assignments: "tuple[CreatePartitionsAssignment, ...]", added: int
) -> None:
    if len(assignments) != added:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(assignments)} assignment(s) "
            "were specified.",
        )
    for assignment in assignments:
        validate_replicas(assignment.broker_ids, services.nodes.ids)
