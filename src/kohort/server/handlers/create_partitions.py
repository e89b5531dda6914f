"""CreatePartitions (37) v0-3: more partitions for a topic; never fewer.

v3 knows THROTTLING_QUOTA_EXCEEDED (KIP-599). Consumers learn of the new partitions from their
next Metadata. The number of partitions of `__consumer_offsets` decides where a group lives, so it
cannot grow.
"""

from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.runtime.time_slice import TimeSlices
from kohort.server.handlers.in_steps import collected, counted, respond_large
from kohort.server.net import Exchange
from kohort.server.responses import validate_replicas
from kohort.server.services import Services
from kohort.server.throttling import Mutations

FIRST_WITH_THROTTLING: Final = 3


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    times = await counted(topic.name for topic in request.topics)
    strict = exchange.version >= FIRST_WITH_THROTTLING
    mutations = services.throttling.mutations(exchange, strict=strict)
    slices, results = TimeSlices(), []
    for topic in request.topics:
        if times[topic.name] == 1:
            results.append(await _result(services, exchange, request, topic, mutations))
            await slices.give_way()
    results += await collected(times, lambda name: _duplicate(name) if times[name] > 1 else None)
    await respond_large(services, exchange, {"results": results}, len(results))


def _duplicate(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "error_code": ErrorCode.invalid_request,
        "error_message": "Duplicate topic name.",
    }


async def _result(
    services: Services, exchange: Exchange, request: Any, wanted: Any, mutations: Mutations
) -> dict[str, Any]:
    try:
        if not services.access(exchange).topic(wanted.name):
            raise KafkaError(ErrorCode.topic_authorization_failed)
        if request.timeout.total_seconds() <= 0:
            raise KafkaError(ErrorCode.request_timed_out)
        await _grow(services, wanted, mutations, request.validate_only)
    except KafkaError as error:
        return {
            "name": wanted.name,
            "error_code": error.code,
            "error_message": error.message or None,
        }
    return {"name": wanted.name, "error_code": ErrorCode.none}


async def _grow(services: Services, wanted: Any, mutations: Mutations, validate_only: bool) -> None:
    if services.topics.get(wanted.name) is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    topic = services.topics.plan_partitions(wanted.name, wanted.count)
    if topic.internal:
        raise KafkaError(
            ErrorCode.policy_violation, (f"The number of partitions of {topic.name} is fixed.")
        )
    added = wanted.count - len(topic.partitions)
    if wanted.assignments is not None:
        _validate_assignments(services, wanted.assignments, added)
    if not mutations.admits(added):
        raise KafkaError(ErrorCode.throttling_quota_exceeded)
    if not validate_only:
        await services.topics.grow(wanted.name, wanted.count)


def _validate_assignments(services: Services, assignments: Any, added: int) -> None:
    if len(assignments) != added:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(assignments)} assignment(s) "
            "were specified.",
        )
    for assignment in assignments:
        validate_replicas(assignment.broker_ids, services.nodes.ids)
