"""DescribeTopicPartitions (75) v0: topics in the order of their names, a page at a time (KIP-966).

A page has at most `response_partition_limit` partitions, and Kafka's 2 000; `next_cursor` names the
first that did not fit. An empty list asks for all topics.
"""

from collections.abc import Collection, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.errors import ErrorCode
from kohort.server.authorization import TOPIC, Access
from kohort.server.handlers import metadata
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.metadata import INTERNAL
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeTopicPartitionsRequest

MAX_PARTITIONS = 2_000
"""Default of Kafka's max.request.partition.size.limit."""


class Cursor(NamedTuple):
    """Start of a page."""

    topic_name: str = ""
    partition_index: int = 0


def handle(
    services: Services, exchange: Exchange, request: "DescribeTopicPartitionsRequest"
) -> Coroutine[Any, Any, None] | None:
    return respond_in_chunks(services, exchange, _steps(services, exchange, request))


def _steps(
    services: Services, exchange: Exchange, request: "DescribeTopicPartitionsRequest"
) -> Steps:
    access = services.access(exchange)
    cursor = (
        Cursor()
        if request.cursor is None
        else Cursor(request.cursor.topic_name, request.cursor.partition_index)
    )
    named: dict[str, None] = {}
    for topic in request.topics:
        named[topic.name] = None
        yield
    lost = named and request.cursor is not None and cursor.topic_name not in named
    if lost or cursor.partition_index < 0:
        refused = [
            {"error_code": ErrorCode.invalid_request, "name": topic.name}
            for topic in request.topics
        ]
        return {"topics": refused}
    names, denied = yield from _visible(services, access, named, cursor)
    listed = {node.id for node in services.nodes.all(exchange.peer.endpoint)}
    limit = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    topics, next_cursor = yield from _page(services, access, listed, names, cursor, limit)
    return {"topics": [*topics, *denied], "next_cursor": next_cursor and next_cursor._asdict()}


def _visible(
    services: Services, access: Access, named: Iterable[str], cursor: Cursor
) -> Generator[None, None, tuple[list[str], list[dict[str, Any]]]]:
    """The topics to describe, all if none is named, and refusals of others that are named.

    Those before the cursor are left out.
    """
    access = access if named else access.quietly()
    visible: list[str] = []
    denied: list[dict[str, Any]] = []
    for name in tuple(named) or tuple(topic.name for topic in services.topics.all()):
        yield
        if name < cursor.topic_name:
            continue
        if access.topic(name):
            visible.append(name)
        elif named:
            denied.append(_denied(name))
    return sorted(visible), denied


def _page(
    services: Services,
    access: Access,
    listed: Collection[int],
    names: list[str],
    cursor: Cursor,
    limit: int,
) -> Generator[None, None, tuple[list[dict[str, Any]], Cursor | None]]:
    entries: list[dict[str, Any]] = []
    for name in names:
        yield
        first = cursor.partition_index if name == cursor.topic_name else 0
        # One more than fits shows whether there are more.
        entry = _entry(services, access, listed, name, first, limit + 1)
        partitions = entry["partitions"]
        if partitions and limit == 0:
            return entries, Cursor(name, first)
        entry["partitions"] = partitions[:limit]
        entries.append(entry)
        if len(partitions) > limit:
            return entries, Cursor(name, first + limit)
        limit -= len(partitions)
    return entries, None


def _denied(name: str) -> dict[str, Any]:
    return {"error_code": ErrorCode.topic_authorization_failed, "name": name, "partitions": ()}


def _entry(
    services: Services, access: Access, listed: Collection[int], name: str, first: int, most: int
) -> dict[str, Any]:
    topic = services.topics.get(name)
    operations = {"topic_authorized_operations": access.operations(TOPIC, name)}
    if topic is None:
        unknown = {
            "error_code": metadata.unknown_or_invalid(name),
            "name": name,
            "is_internal": name in INTERNAL,
        }
        return unknown | operations | {"partitions": []}
    entry = metadata.describe(topic, services.nodes, listed, first=first, most=most) | operations
    for partition in entry["partitions"]:
        partition.pop("error_code", None)  # which Kafka has in Metadata only
        partition["eligible_leader_replicas"] = partition["last_known_elr"] = ()
    return entry
