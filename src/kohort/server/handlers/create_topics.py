"""CreateTopics (19) v2-7: each topic by itself; what fails does not stop the others.

v4 allows -1 for the broker's default number of partitions and replicas (older versions take it too,
as in Kafka); v5 responds with the number of partitions and the configs (KIP-525); v6 knows
THROTTLING_QUOTA_EXCEEDED (KIP-599); v7 responds with the topic id.

A partition has one replica: a replication factor beyond the number of brokers is refused, and so
are assignments to others than these, with Kafka's words. A request whose time is up when it comes
is refused and does nothing.
"""

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode, KafkaError
from kohort.server.authorization import CLUSTER, CREATE, DESCRIBE_CONFIGS, TOPIC, Access
from kohort.server.config import describe_topic_configs
from kohort.server.controller import NewTopic, too_many_partitions
from kohort.server.handlers.chunked import (
    collect_in_chunks,
    count_in_chunks,
    deadline_of,
    respond_large,
    split_in_chunks,
)
from kohort.server.handlers.replica_assignments import validate_replicas
from kohort.server.metadata import TopicRecord
from kohort.server.net import Exchange
from kohort.server.replicas import Topic
from kohort.server.services import Services
from kohort.server.throttling import Mutations
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import CreatableTopic, CreateTopicsRequest

MAX_CONFIGS = 1_000
"""Configs of a topic that are looked at; there are fewer."""
ENTRIES = 30
"""Configs of a topic, in the response."""
_MAX_CACHED_CONFIGS = 100
"""Sets of configs whose entries are shared by the topics of a request that have the same."""
THROTTLING_SINCE = 6
DEFAULT = -1
"""A number of partitions or replicas that the broker chooses."""


async def handle(services: Services, exchange: Exchange, request: "CreateTopicsRequest") -> None:
    times = await count_in_chunks(topic.name for topic in request.topics)
    distinct = await collect_in_chunks(
        request.topics, lambda topic: topic if times[topic.name] == 1 else None
    )
    access = services.access(exchange)
    everywhere = access.may(CREATE, CLUSTER, log_if_denied=False)
    allowed, denied = await split_in_chunks(
        distinct, lambda topic: everywhere or access.topic(topic.name)
    )
    strict = exchange.version >= THROTTLING_SINCE
    mutations = services.throttling.mutations(exchange, strict=strict)
    results = [_unauthorized(topic.name) for topic in denied]
    results += await _results(services, access, request, allowed, mutations)
    results += await collect_in_chunks(
        times, lambda name: _duplicate(name) if times[name] > 1 else None
    )
    await respond_large(services, exchange, {"topics": results}, ENTRIES * len(results))


async def _results(
    services: Services,
    access: Access,
    request: "CreateTopicsRequest",
    topics: Sequence[Any],
    mutations: Mutations,
) -> list[dict[str, Any]]:
    deadline = deadline_of(request)
    await services.controller.writer.catch_up(deadline)
    slices, excess = TimeSlices(), await in_slices(_excess(services, topics))
    validated: list[TopicRecord | KafkaError] = []
    for topic in topics:
        validated.append(_validated(services, request, topic, excess, mutations))
        await slices.give_way()
    if not request.validate_only:
        validated = await _created(services, topics, validated, deadline)
    results = []
    entries = lru_cache(_MAX_CACHED_CONFIGS)(partial(_entries, services))
    for topic, outcome in zip(topics, validated, strict=True):
        results.append(
            refusal(topic.name, outcome.code, outcome.message or None)
            if isinstance(outcome, KafkaError)
            else _success(access, outcome, entries)
        )
        await slices.give_way()
    return results


def _validated(
    services: Services,
    request: "CreateTopicsRequest",
    topic: "CreatableTopic",
    excess: KafkaError | None,
    mutations: Mutations,
) -> TopicRecord | KafkaError:
    """The topic as it would be created, or why it is not."""
    try:
        if request.timeout.total_seconds() <= 0:
            raise KafkaError(ErrorCode.request_timed_out)
        if excess is not None:
            return excess
        plan = services.controller.replication.create_topic(
            topic.name, _partitions(services, topic), _configs(topic)
        )
        _validate_placement(services, topic)
        if not mutations.admits(plan.partitions):
            raise KafkaError(ErrorCode.throttling_quota_exceeded)
    except KafkaError as error:
        return error.with_traceback(None)  # which refers to the list that has the error
    return plan


async def _created(
    services: Services,
    topics: Sequence[Any],
    validated: Sequence[TopicRecord | KafkaError],
    deadline: float,
) -> list[TopicRecord | KafkaError]:
    """Create what is valid; in the same order the topic as it is now, or why it is not."""

    def new(judged: tuple[Any, TopicRecord | KafkaError]) -> NewTopic | None:
        topic, plan = judged
        if isinstance(plan, KafkaError):
            return None
        return NewTopic(topic.name, _partitions(services, topic), _configs(topic))

    valid = await collect_in_chunks(zip(topics, validated, strict=True), new)
    try:
        created = iter(await services.controller.topics.create_topics(valid, deadline))
    except KafkaError as error:
        created = repeat(error.with_traceback(None))

    def outcome(plan: TopicRecord | KafkaError) -> TopicRecord | KafkaError:
        topic_or_error = plan if isinstance(plan, KafkaError) else next(created)
        return topic_or_error.record() if isinstance(topic_or_error, Topic) else topic_or_error

    return await collect_in_chunks(validated, outcome)


def _configs(topic: "CreatableTopic") -> dict[str, str | None]:
    # So many have an unknown name among them; of duplicates the last one counts.
    return {config.name: config.value for config in topic.configs[-MAX_CONFIGS:]}


def _partitions(services: Services, topic: "CreatableTopic") -> int:
    if topic.assignments:
        return len(topic.assignments)
    number: int = (
        services.config["num.partitions"]
        if topic.num_partitions == DEFAULT
        else topic.num_partitions
    )
    return number


def _validate_placement(services: Services, topic: "CreatableTopic") -> None:
    """Raises KafkaError INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST."""
    if topic.assignments:
        _validate_assignments(services, topic)
        return
    factor = topic.replication_factor
    if factor < DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    brokers = len(services.nodes.ids)
    if factor > brokers:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication "
            f"factor of {factor} "
            f"cannot be reached because only {brokers} broker(s) are registered.",
        )


def _validate_assignments(services: Services, topic: "CreatableTopic") -> None:
    for value, name in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if value != DEFAULT:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    assigned: set[int] = set()
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                "Found multiple manual partition assignments for partition "
                f"{assignment.partition_index}",
            )
        assigned.add(assignment.partition_index)
        validate_replicas(assignment.broker_ids, services.nodes.ids)
    if assigned != set(range(len(assigned))):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )


def _excess(services: Services, topics: Sequence[Any]) -> Generator[None, None, KafkaError | None]:
    """The error of all topics if together they have too many partitions for one request."""
    partitions = 0
    for topic in topics:
        partitions += max(0, _partitions(services, topic))
        yield
    return too_many_partitions(partitions)


def _success(
    access: Access,
    topic: TopicRecord,
    entries: Callable[[frozenset[tuple[str, str]]], Sequence[dict[str, Any]]],
) -> dict[str, Any]:
    result = {
        "name": topic.name,
        "topic_id": topic.id,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    if not access.quietly().may(DESCRIBE_CONFIGS, TOPIC, topic.name):
        return result | {
            "topic_config_error_code": ErrorCode.topic_authorization_failed,
            "configs": (),
        }
    return result | {
        "num_partitions": topic.partitions,
        "replication_factor": 1,
        "configs": entries(frozenset(topic.configs.items())),
    }


def _entries(
    services: Services, own_configs: frozenset[tuple[str, str]]
) -> Sequence[dict[str, Any]]:
    """The configs of a topic with these of its own."""
    configs = dict(own_configs)
    return tuple(
        {
            "name": entry.name,
            # What was set is shown as it was given, what was not as it is.
            "value": configs.get(entry.name, entry.value),
            "read_only": entry.read_only,
            "config_source": entry.source,
            "is_sensitive": False,
        }
        for entry in describe_topic_configs(configs, services.config)
    )


def refusal(name: str, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": code, "error_message": message, "configs": ()}


def _unauthorized(name: str) -> dict[str, Any]:
    return refusal(name, ErrorCode.topic_authorization_failed, "Authorization failed.")


def _duplicate(name: str) -> dict[str, Any]:
    return refusal(name, ErrorCode.invalid_request, "Duplicate topic name.")
