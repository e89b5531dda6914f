"""DeleteTopics (20) v1-6: topics and their records, at once; their committed offsets go with them.

v5 has an error message and knows THROTTLING_QUOTA_EXCEEDED (KIP-599); v6 deletes by id too
(KIP-516). Before v3 TOPIC_DELETION_DISABLED was not known. `__consumer_offsets` cannot be deleted,
unlike in Kafka, where that loses every group.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.server.authorization import CLUSTER, DELETE, DESCRIBE, TOPIC, Access
from kohort.server.handlers.chunked import (
    collect_in_chunks,
    count_in_chunks,
    deadline_of,
    respond_large,
)
from kohort.server.net import Exchange
from kohort.server.replicas import Topics
from kohort.server.services import Services
from kohort.server.throttling import Mutations
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import DeleteTopicsRequest

TOPIC_IDS_SINCE = 6
THROTTLING_SINCE = 5
TOPIC_DELETION_DISABLED_SINCE = 3


class TopicToDelete(NamedTuple):
    """A topic by its name or its id; the response repeats both."""

    name: str | None
    topic_id: UUID | None


async def handle(services: Services, exchange: Exchange, request: "DeleteTopicsRequest") -> None:
    deadline = deadline_of(request)
    work = _delete(services, exchange, request, deadline)
    try:
        results = await services.controller.writer.change(work, deadline)
    except KafkaError as error:
        refuse = partial(_entry, code=error.code, message=error.message)
        results = await collect_in_chunks(_topics_to_delete(request, exchange.version), refuse)
    await respond_large(services, exchange, {"responses": results}, len(results))


async def _delete(
    services: Services, exchange: Exchange, request: "DeleteTopicsRequest", deadline: float
) -> list[dict[str, Any]]:
    await services.controller.writer.catch_up(deadline)
    version, access = exchange.version, services.access(exchange)
    strict = version >= THROTTLING_SINCE
    mutations = services.throttling.mutations(exchange, strict=strict)
    everywhere = access.may(DELETE, CLUSTER, log_if_denied=False)
    refuse = partial(_unauthorized, services.topics, access, everywhere)
    times = await count_in_chunks(_topics_to_delete(request, version))
    slices = TimeSlices()
    results: list[dict[str, Any]] = []
    indexes: dict[str, int] = {}
    for requested, count in times.items():
        result = _result(services, refuse, version, request, requested, count, indexes)
        if not result["error_code"] and not _is_admitted(services, result, mutations):
            result["error_code"] = ErrorCode.throttling_quota_exceeded
        if not result["error_code"]:
            indexes[result["name"]] = len(results)
        results.append(result)
        await slices.give_way()
    refused = await services.controller.topics.delete_topics(list(indexes))
    for name, error in refused.items():
        failed = {"error_code": error.code, "error_message": error.message or None}
        results[indexes[name]] |= failed
    return results


def _is_admitted(services: Services, result: dict[str, Any], mutations: Mutations) -> bool:
    topic = services.topics.get(result["name"])
    return topic is None or mutations.admits(len(topic.partitions))


def _topics_to_delete(request: "DeleteTopicsRequest", version: int) -> Iterator[TopicToDelete]:
    if version < TOPIC_IDS_SINCE:
        yield from (TopicToDelete(name, None) for name in request.topic_names)
    else:
        yield from (TopicToDelete(topic.name, topic.topic_id) for topic in request.topics)


def _result(
    services: Services,
    refuse: Callable[[TopicToDelete], dict[str, Any] | None],
    version: int,
    request: "DeleteTopicsRequest",
    requested: TopicToDelete,
    times: int,
    chosen: Collection[str],
) -> dict[str, Any]:
    """Whether to delete a topic that the request names so many `times`, beside those `chosen`."""
    try:
        _validate_request(services, version, request, requested, times)
        refused = refuse(requested)
        if refused is not None:
            return refused
        deleted = _resolve(services.topics, requested, chosen)
    except KafkaError as error:
        return _entry(requested, error.code, error.message)
    return _entry(deleted, ErrorCode.none, "")


def _validate_request(
    services: Services,
    version: int,
    request: "DeleteTopicsRequest",
    requested: TopicToDelete,
    times: int,
) -> None:
    if not services.config["delete.topic.enable"]:
        has_error = version >= TOPIC_DELETION_DISABLED_SINCE
        raise KafkaError(
            ErrorCode.topic_deletion_disabled if has_error else ErrorCode.invalid_request
        )
    if requested.name is None and requested.topic_id is None:
        raise KafkaError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if requested.name is not None and requested.topic_id is not None:
        raise KafkaError(
            ErrorCode.invalid_request, ("You may not specify both topic name and topic id.")
        )
    if times > 1:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Duplicate topic {'id' if requested.name is None else 'name'}.",
        )
    if request.timeout.total_seconds() <= 0:
        raise KafkaError(ErrorCode.request_timed_out)


def _unauthorized(
    topics: Topics, access: Access, everywhere: bool, requested: TopicToDelete
) -> dict[str, Any] | None:
    """The refusal of a topic that the client may not delete; an unknown id is up to `_resolve`."""
    by_id = None if requested.topic_id is None else topics.by_id(requested.topic_id)
    name = requested.name if by_id is None else by_id.name
    if name is None or everywhere or access.topic(name):
        return None
    if by_id is not None and access.quietly().may(DESCRIBE, TOPIC, name):
        requested = requested._replace(name=name)
    return _entry(requested, ErrorCode.topic_authorization_failed, "Authorization failed.")


def _resolve(topics: Topics, requested: TopicToDelete, chosen: Collection[str]) -> TopicToDelete:
    if requested.topic_id is not None:
        topic = topics.by_id(requested.topic_id)
        if topic is None or topic.name in chosen:
            raise KafkaError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    else:
        topic = topics.get(requested.name or "")
        if topic is None or topic.name in chosen:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition,
                "This server does not host this topic-partition.",
            )
    if topic.internal:
        raise KafkaError(ErrorCode.policy_violation, f"{topic.name} keeps the state of all groups.")
    return TopicToDelete(topic.name, topic.id)


def _entry(topic: TopicToDelete, code: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": code,
        "error_message": message or None,
    }
