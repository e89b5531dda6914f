"""Metadata (3) v0-13: the broker and its topics; missing topics are created on request.

v0 asks for all topics with an empty list, v1 with null; v4 lets the client forbid creation; v8
shows authorised operations (KIP-430; of the cluster only until v10); v10 has topic ids, v12 asks by
them (KIP-516); v13 has an error of the whole response, which is always none here.

The response to a request that creates a topic has UNKNOWN_TOPIC_OR_PARTITION for it, as in Kafka,
and the client asks again. The topic exists before the response is sent, so the next one has it.
"""

from collections.abc import Collection, Coroutine, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from kohort.cluster import NO_LEADER, Leader
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, response
from kohort.protocol.packing import pack_array, pack_compact_array
from kohort.server.authorization import CLUSTER, CREATE, DESCRIBE, TOPIC, Access
from kohort.server.cluster import Node, Nodes
from kohort.server.controller import MAX_PARTITIONS_PER_REQUEST, NewTopic
from kohort.server.handlers.chunked import respond_in_thread
from kohort.server.metadata import INTERNAL, validate_name
from kohort.server.net import Exchange
from kohort.server.replicas import Topic
from kohort.server.responses import OPERATIONS_NOT_REQUESTED
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import MetadataRequest, MetadataRequestTopic

API_KEY = 3
TOPIC_IDS_SINCE = 12
TOPICS_PER_TURN = 100
"""Topics that are described and encoded in one turn."""
PARTITIONS_PER_TURN = 1_000
"""Partitions that are encoded in one turn; a topic with more is encoded in a thread."""
MAX_TOPICS_PER_TURN = 1_000
"""Topics of a request that are looked at in one turn."""
FLEXIBLE_SINCE: Final = BY_NAME["metadata"].first_flexible
LISTENER_NOT_FOUND_SINCE = 6
"""First version that knows of leaders without the listener that the client uses."""
ALWAYS_CREATES = 3
"""Last version in which a client cannot forbid the creation of what it asks for."""


def handle(
    services: Services, exchange: Exchange, request: "MetadataRequest"
) -> Coroutine[Any, Any, None] | None:
    if len(request.topics or ()) > MAX_TOPICS_PER_TURN:
        return _handle_many(services, exchange, request)
    if _is_malformed(request, exchange.version):
        exchange.respond(response(API_KEY, exchange.version, **_refusal(request)))
        return None
    brokers = services.nodes.all(exchange.peer.endpoint)
    cached = services.topics.responses.get(_question(exchange, request, brokers))
    if cached is not None and not services.has_authorizer:
        exchange.respond_encoded(cached)
        return None
    missing: list[str] = []
    if _may_create(services, exchange.version, request):
        missing = _missing_topics(services, exchange, request.topics or ())
    if missing:
        return _create_and_respond(services, exchange, request, missing)
    return _respond(services, exchange, request, {})


async def _handle_many(services: Services, exchange: Exchange, request: "MetadataRequest") -> None:
    """`handle` of a request with so many topics that each look at all of them is in slices."""
    version = exchange.version
    if await in_slices(_find_malformed(request, version)):
        await respond_in_thread(services, exchange, partial(_refusal, request))
        return
    # A topic that is named again is described once.
    request = await services.heavy_work.run(partial(_without_repeats, request))
    missing: list[str] = []
    if _may_create(services, version, request):
        missing = await in_slices(_find_missing(services, exchange, request.topics or ()))
    if missing:
        await _create_and_respond(services, exchange, request, missing)
        return
    later = _respond(services, exchange, request, {})
    if later is not None:
        await later


def _find_malformed(request: "MetadataRequest", version: int) -> Generator[None, None, bool]:
    for topic in request.topics or ():
        if _is_malformed_topic(topic, version):
            return True
        yield
    return False


def _find_missing(
    services: Services, exchange: Exchange, topics: Iterable[Any]
) -> Generator[None, None, list[str]]:
    missing = []
    for topic in topics:
        missing += _missing_topics(services, exchange, (topic,))
        yield
    return missing


def _without_repeats(request: "MetadataRequest") -> "MetadataRequest":
    """The request with each topic once, in the order in which they are named first."""
    topics: dict[tuple[str | None, UUID | None], Any] = {}
    for topic in request.topics or ():
        topics.setdefault((topic.name, getattr(topic, "topic_id", None)), topic)
    return replace(request, topics=tuple(topics.values()))


async def _create_and_respond(
    services: Services, exchange: Exchange, request: "MetadataRequest", missing: list[str]
) -> None:
    partitions = services.config["num.partitions"]
    access = services.access(exchange)
    everywhere = access.may(CREATE, CLUSTER, log_if_denied=False)
    refused: dict[str, ErrorCode] = {
        name: ErrorCode.topic_authorization_failed
        for name in missing
        if not (everywhere or access.may(CREATE, TOPIC, name))
    }
    missing = [name for name in missing if name not in refused]
    # What exceeds the limit is unknown, as all missing topics are in Kafka, and requested again.
    names = missing[: max(MAX_PARTITIONS_PER_REQUEST // partitions, 1)]
    outcomes = await services.controller.topics.create_topics(
        [NewTopic(name, partitions) for name in names]
    )
    refused |= {
        name: outcome.code
        if isinstance(outcome, KafkaError)
        # Another request may have made the topic meanwhile, and a third one deleted it.
        and outcome.code is not ErrorCode.topic_already_exists
        else ErrorCode.unknown_topic_or_partition
        for name, outcome in zip(names, outcomes, strict=True)
    }
    later = _respond(services, exchange, request, refused)
    if later is not None:
        await later


def _is_malformed(request: "MetadataRequest", version: int) -> bool:
    return any(_is_malformed_topic(topic, version) for topic in request.topics or ())


def _is_malformed_topic(topic: "MetadataRequestTopic", version: int) -> bool:
    if version < 10:
        return False
    if version < TOPIC_IDS_SINCE:  # the fields are there, but Kafka has never served them
        return topic.topic_id is not None or topic.name is None
    return topic.topic_id is None and topic.name is None


def _refusal(request: "MetadataRequest") -> dict[str, Any]:
    topics = [
        {
            "error_code": ErrorCode.invalid_request,
            "name": topic.name or "",
            "topic_id": topic.topic_id,
        }
        for topic in request.topics or ()
    ]
    return {"topics": topics, "controller_id": -1, "error_code": ErrorCode.invalid_request}


def _may_create(services: Services, version: int, request: "MetadataRequest") -> bool:
    allowed = version <= ALWAYS_CREATES or request.allow_auto_topic_creation
    if not allowed or not request.topics or not services.config["auto.create.topics.enable"]:
        return False
    return not any(getattr(topic, "topic_id", None) for topic in request.topics)


def _missing_topics(services: Services, exchange: Exchange, topics: Iterable[Any]) -> list[str]:
    """The names of topics that do not exist, may be created, and that the client may describe."""
    access = services.access(exchange).quietly()  # the response asks again
    return [
        name
        for name in dict.fromkeys(topic.name for topic in topics)
        if name
        and name not in INTERNAL
        and services.topics.get(name) is None
        and access.topic(name)
    ]


def _respond(
    services: Services,
    exchange: Exchange,
    request: "MetadataRequest",
    refused: dict[str, ErrorCode],
) -> Coroutine[Any, Any, None] | None:
    # The nodes of one moment: others may come and go between the slices.
    brokers = services.nodes.all(exchange.peer.endpoint)
    entries = _entries(services, exchange, request, refused, {node.id for node in brokers})
    first = _next_batch(entries)
    following = tuple(islice(entries, 1))
    if following or _partitions(first) > PARTITIONS_PER_TURN:
        all_entries = chain(first, following, entries)
        return _respond_in_slices(services, exchange, request, brokers, all_entries)
    body = _encode(services, exchange, request, brokers, first)
    _end(services, exchange, request, brokers, len(first), _errors(first), body)
    return None


def _next_batch(entries: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The next entries, as many as are encoded in one turn."""
    batch: list[dict[str, Any]] = []
    partitions = 0
    for entry in entries:
        batch.append(entry)
        partitions += len(entry.get("partitions", ()))
        if len(batch) >= TOPICS_PER_TURN or partitions >= PARTITIONS_PER_TURN:
            break
    return batch


def _partitions(entries: Iterable[dict[str, Any]]) -> int:
    return sum(len(entry.get("partitions", ())) for entry in entries)


async def _respond_in_slices(
    services: Services,
    exchange: Exchange,
    request: "MetadataRequest",
    brokers: Sequence[Node],
    entries: Iterator[dict[str, Any]],
) -> None:
    """Encode some topics after the other, giving way in between, and join their bytes."""
    cleared = services.topics.responses.cleared
    empty = _encode(services, exchange, request, brokers, [])
    pieces, described = [], 0
    errors: set[ErrorCode] = set()
    slices = TimeSlices()
    start = 0
    while batch := _next_batch(entries):
        encode_some = partial(_encode, services, exchange, request, brokers, batch)
        large = _partitions(batch) > PARTITIONS_PER_TURN
        encoded = await services.heavy_work.run(encode_some) if large else encode_some()
        # The number of topics is below 126: the last byte of it is the first one that differs.
        start = (
            start or next(index for index, byte in enumerate(empty) if encoded[index] != byte) + 1
        )
        pieces.append(encoded[start : len(encoded) - (len(empty) - start)])
        described += len(batch)
        errors |= _errors(batch)
        await slices.give_way()
    flexible = exchange.version >= FLEXIBLE_SINCE
    head = empty[: start - (1 if flexible else 4)]
    count = (pack_compact_array if flexible else pack_array)(described)
    body = b"".join((head, count, *pieces, empty[start:]))
    _end(
        services,
        exchange,
        request,
        brokers,
        described,
        errors,
        body,
        keep=services.topics.responses.cleared == cleared,
    )


def _question(exchange: Exchange, request: "MetadataRequest", brokers: Sequence[Node]) -> Hashable:
    """All that a response depends on beside the topics, and the leaders of their partitions."""
    return API_KEY, exchange.version, request, exchange.peer.endpoint, tuple(brokers)


def _encode(
    services: Services,
    exchange: Exchange,
    request: "MetadataRequest",
    brokers: Sequence[Node],
    entries: list[dict[str, Any]],
) -> bytes:
    cluster_asked = getattr(request, "include_cluster_authorized_operations", False)
    return encode(
        response(
            API_KEY,
            exchange.version,
            brokers=[
                {"node_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
                for node in brokers
            ],
            cluster_id=services.cluster_id,
            controller_id=services.nodes.controller(exchange.peer.endpoint),
            topics=entries,
            cluster_authorized_operations=(
                cluster_operations(services.access(exchange))
                if cluster_asked
                else OPERATIONS_NOT_REQUESTED
            ),
        )
    )


def _errors(entries: Iterable[dict[str, Any]]) -> set[ErrorCode]:
    described = (
        described_item
        for entry in entries
        for described_item in (entry, *entry.get("partitions", ()))
    )
    return {
        described_item["error_code"]
        for described_item in described
        if "error_code" in described_item
    }


def _end(
    services: Services,
    exchange: Exchange,
    request: "MetadataRequest",
    brokers: Sequence[Node],
    described: int,
    errors: set[ErrorCode],
    body: bytes,
    *,
    keep: bool = True,
) -> None:
    # A request that names a topic many times is not to be kept.
    requested = len(request.topics or ())
    if services.has_authorizer:
        keep = False  # others may not see the same
    if keep and not errors and requested <= described and requested <= MAX_TOPICS_PER_TURN:
        services.topics.responses.put(_question(exchange, request, brokers), body)
    exchange.respond_encoded(body, errors)


def _entries(
    services: Services,
    exchange: Exchange,
    request: "MetadataRequest",
    refused: dict[str, ErrorCode],
    listed: Collection[int],
) -> Iterator[dict[str, Any]]:
    """The topics that the client may describe, and refusals for others that it named.

    `listed` are the nodes that it can reach.
    """
    access = services.access(exchange)
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    topics, version = request.topics, exchange.version
    by_id = any(getattr(topic, "topic_id", None) is not None for topic in topics or ())
    everything = topics is None or (version == 0 and not topics)
    if everything:
        access = access.quietly()
    for entry in _entries_of(services, version, topics, refused, listed):
        # An id that is unknown stays without: the client may not learn what it names.
        name = entry.get("name")
        if name is not None and not access.topic(name):
            if not everything:
                yield _denied(entry, by_id)
            continue
        if name is not None and with_operations and name not in refused:
            entry["topic_authorized_operations"] = access.operations(TOPIC, name)
        yield entry


def _denied(entry: dict[str, Any], by_id: bool) -> dict[str, Any]:
    """Entry of a topic that the client may not describe: only what its request named."""
    named = {"name": None, "topic_id": entry["topic_id"]} if by_id else {"name": entry["name"]}
    return {"error_code": ErrorCode.topic_authorization_failed, **named}


def _entries_of(
    services: Services,
    version: int,
    requested: "tuple[MetadataRequestTopic, ...] | None",
    refused: dict[str, ErrorCode],
    listed: Collection[int],
) -> Iterator[dict[str, Any]]:
    topics = services.topics
    unlisted = (
        ErrorCode.listener_not_found
        if version >= LISTENER_NOT_FOUND_SINCE
        else ErrorCode.leader_not_available
    )
    described = partial(describe, nodes=services.nodes, listed=listed, unlisted=unlisted)
    if requested is None or (version == 0 and not requested):
        yield from map(described, tuple(topics.all()))
        return
    if any(getattr(topic, "topic_id", None) is not None for topic in requested):
        ids = (getattr(topic, "topic_id", None) for topic in requested)
        for topic_id in _distinct(id_ for id_ in ids if id_ is not None):
            topic = topics.by_id(topic_id)
            unknown = {"error_code": ErrorCode.unknown_topic_id, "name": None, "topic_id": topic_id}
            yield unknown if topic is None else described(topic)
        return
    for name in _distinct(topic.name or "" for topic in requested):
        topic = topics.get(name)
        yield (
            _missing(name, refused.get(name))
            if topic is None or name in refused
            else described(topic)
        )


T = TypeVar("T")


def cluster_operations(access: Access) -> int:
    """Operations of the client on the cluster; none if it may not describe it (KIP-430)."""
    return access.operations(CLUSTER) if access.quietly().may(DESCRIBE, CLUSTER) else 0


def _distinct(items: Iterable[T]) -> Iterator[T]:
    """Each item once, in the order of their first occurrences, one by one."""
    seen: set[T] = set()
    for item in items:
        if item not in seen:
            seen.add(item)
            yield item


def describe(
    topic: Topic,
    nodes: Nodes,
    listed: Collection[int],
    *,
    unlisted: ErrorCode = ErrorCode.listener_not_found,
    first: int = 0,
    most: int | None = None,
) -> dict[str, Any]:
    """A topic as Metadata and DescribeTopicPartitions show it, with its leader as the one replica.

    It has at most so many partitions, from the `first` on. Clients can reach the nodes `listed`; a
    partition that another one leads has the error `unlisted`.
    """
    leaders = nodes.leaders(topic)
    count = len(leaders)
    last = count if most is None else min(first + most, count)
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            _describe_partition(index, leaders[index], listed, unlisted)
            for index in range(first, last)
        ],
    }


def _describe_partition(
    index: int, leader: Leader, listed: Collection[int], unlisted: ErrorCode
) -> dict[str, Any]:
    node, epoch = leader
    replicas = () if node == NO_LEADER else (node,)
    described = {
        "partition_index": index,
        "leader_id": node,
        "leader_epoch": epoch,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
    }
    if not replicas:
        return described | {"error_code": ErrorCode.leader_not_available}
    if node in listed:
        return described
    return described | {
        "error_code": unlisted,
        "leader_id": NO_LEADER,
        "offline_replicas": replicas,
    }


def _missing(name: str, error: ErrorCode | None) -> dict[str, Any]:
    return {
        "error_code": error or unknown_or_invalid(name),
        "name": name,
        "is_internal": name in INTERNAL,
    }


def unknown_or_invalid(name: str) -> ErrorCode:
    """The error of a name that no topic has."""
    try:
        validate_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.unknown_topic_or_partition
