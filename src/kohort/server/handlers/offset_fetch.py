"""OffsetFetch (9) v1-10: the committed offsets of groups.

v2 adds "all topics" (null) and an error for the whole group; v3 the throttle time, v5 the leader
epoch (KIP-320); v6 is flexible; v7 adds require_stable (KIP-447); v8 asks about many groups at once
(KIP-709); v9 brings a member's id and epoch (KIP-848), which a classic group ignores; v10 names
topics by id.

An error of the whole group stands in every partition in v1, at the top in v2-7 and in the group's
entry from v8. In v2-7 those by which a client asks again, or another coordinator, stand in every
partition too: aiokafka (0.14) reads no others, and would begin at its `auto_offset_reset` as if
nothing was committed. Other clients read the one at the top first.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import UUID

from kohort.coordinator.requests import OffsetFetch
from kohort.coordinator.responses import NONE, FetchedOffset, OffsetFetchResponse
from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode
from kohort.protocol.messages import response as new_response
from kohort.protocol.packing import pack_compact_array, pack_compact_string, pack_int16
from kohort.server.handlers.chunked import CHUNK, Pieces, respond_in_thread, submit_and_wait
from kohort.server.net import Exchange
from kohort.server.responses import pack_topics
from kohort.server.services import Services
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
    )

_Fields: TypeAlias = dict[str, Any]
"""Fields of a struct of the response."""

DENIED: Final = OffsetFetchResponse(error=ErrorCode.group_authorization_failed)
MAX_REPEATED_SIZE: Final = 1024 * 1024
"""Size of a response up to which a group that is named again is fetched again, as in Kafka."""

THROTTLE_TIME_SINCE: Final = 3
FLEXIBLE_SINCE: Final = BY_NAME["offset_fetch"].first_flexible
SEVERAL_GROUPS_SINCE: Final = 8
_RETRIED_ERRORS: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_HEAD: Final = b"\0\0\0\0"
"""The throttle time; from v8 on the groups and the tags follow."""
_BEFORE_GROUP: Final = len(_HEAD) + 1
"""Bytes before the only group of a response: the throttle time and the number of groups."""
_TAGS: Final = b"\0"


def handle(
    services: Services, exchange: Exchange, request: "OffsetFetchRequest"
) -> Coroutine[Any, Any, None] | None:
    """Submit to the shard of every group, and respond once all of them have responded."""
    version = exchange.version
    groups = (
        request.groups
        if version >= SEVERAL_GROUPS_SINCE
        # An older request has the fields of its only group.
        else (cast("OffsetFetchRequestGroup", request),)
    )
    if len(groups) != 1:
        return _fetch_many(services, exchange, request)
    group = _Group(services, exchange, groups[0])
    if not group.is_allowed:
        _respond(exchange, group, DENIED)
        return None
    if groups[0].topics is None:
        return _fetch_everything(services, exchange, request, groups[0])
    if _is_large(groups[0]):
        return _fetch_large(services, exchange, request, groups[0])
    respond = exchange.callback(_respond, group)
    services.groups.submit(_request(request, version, group, respond))
    return None


def _request(
    request: "OffsetFetchRequest",
    version: int,
    group: "_Group",
    respond: Callable[[OffsetFetchResponse], None],
) -> OffsetFetch:
    return _part(request, version, group, group.topic_ids(), group.partitions(), respond)


def _part(
    request: "OffsetFetchRequest",
    version: int,
    group: "_Group",
    topic_ids: Mapping[str, UUID],
    partitions: tuple[TopicPartition, ...] | None,
    respond: Callable[[OffsetFetchResponse], None],
) -> OffsetFetch:
    return OffsetFetch(
        on_response=respond,
        group=group.id,
        partitions=partitions,
        require_stable=request.require_stable if version >= 7 else False,
        topic_ids=topic_ids,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
    )


def _respond(exchange: Exchange, group: "_Group", response: OffsetFetchResponse) -> None:
    fields = _fields(exchange.version, group, response)
    exchange.respond(new_response(exchange.api_key, exchange.version, **fields))


def _fields(version: int, group: "_Group", response: OffsetFetchResponse) -> _Fields:
    entry = group.entry(response)
    return {"groups": [entry]} if version >= SEVERAL_GROUPS_SINCE else entry


async def _fetch_everything(
    services: Services,
    exchange: Exchange,
    request: "OffsetFetchRequest",
    requested: "OffsetFetchRequestGroup",
) -> None:
    """Fetch all offsets of one group, which may be very many: they are encoded in slices."""
    version = exchange.version
    group = _Group(services, exchange, requested)
    response = await _fetched(services, request, version, group, requested)
    if isinstance(response.offsets, tuple):
        _respond(exchange, group, response)
        return
    throttle = _HEAD if version >= THROTTLE_TIME_SINCE else b""
    errors: set[int] = set()
    pieces = await group.pack_everything(response, TimeSlices(), errors)
    if version >= SEVERAL_GROUPS_SINCE:
        pieces = [throttle, pack_compact_array(1), *pieces, _TAGS]
    else:
        pieces = [throttle, *pieces]
    exchange.respond_encoded(pieces, errors)


def _is_large(requested: "OffsetFetchRequestGroup") -> bool:
    """Whether the shard gets the partitions of a group in several requests."""
    topics = requested.topics or ()
    return len(topics) > CHUNK or sum(len(topic.partition_indexes) for topic in topics) > CHUNK


async def _fetch_large(
    services: Services,
    exchange: Exchange,
    request: "OffsetFetchRequest",
    requested: "OffsetFetchRequestGroup",
) -> None:
    group = _Group(services, exchange, requested)
    response = await _fetched_in_parts(services, request, exchange.version, group)
    fields = partial(_fields, exchange.version, group, response)
    await respond_in_thread(services, exchange, fields)


async def _fetched_in_parts(
    services: Services, request: "OffsetFetchRequest", version: int, group: "_Group"
) -> OffsetFetchResponse:
    """The response of the shard, which gets `CHUNK` partitions in each request."""
    partitions = await in_slices(group.requested_partitions())
    new_part = partial(_part, request, version, group, group.topic_ids())
    offsets: list[FetchedOffset] = []
    for start in range(0, max(len(partitions), 1), CHUNK):
        response = await submit_and_wait(
            services, partial(new_part, tuple(partitions[start : start + CHUNK]))
        )
        if response.error is not NONE:
            return OffsetFetchResponse(error=response.error)
        offsets += response.offsets
        await asyncio.sleep(0)
    return OffsetFetchResponse(offsets=tuple(offsets))


async def _fetch_many(
    services: Services, exchange: Exchange, request: "OffsetFetchRequest"
) -> None:
    """Fetch one group after the other, each encoded before the next, giving way in between.

    In a large response, a group that is named again gets INVALID_REQUEST: a kilobyte of names must
    not become hundreds of megabytes.
    """
    slices = TimeSlices()
    pieces = Pieces(_HEAD + pack_compact_array(len(request.groups)))
    errors: set[int] = set()
    seen: set[str] = set()
    for requested in request.groups:
        await slices.give_way()
        group = _Group(services, exchange, requested)
        if not group.is_allowed:
            response = DENIED
        elif group.id in seen and pieces.size > MAX_REPEATED_SIZE:
            response = OffsetFetchResponse(error=ErrorCode.invalid_request)
        else:
            response = await _fetched(services, request, exchange.version, group, requested)
        seen.add(group.id)
        if not isinstance(response.offsets, tuple):
            for piece in await group.pack_everything(response, slices, errors):
                pieces.append(piece)
            continue
        encode_group = partial(_encoded, exchange.api_key, exchange.version, group, response)
        is_large = len(response.offsets) > CHUNK
        alone, group_errors = (
            await services.heavy_work.run(encode_group) if is_large else encode_group()
        )
        errors |= group_errors
        pieces.append(alone[_BEFORE_GROUP : -len(_TAGS)])
    pieces.append(_TAGS)
    exchange.respond_encoded(list(pieces), errors)


def _encoded(
    api_key: int, version: int, group: "_Group", response: OffsetFetchResponse
) -> tuple[bytes, set[int]]:
    alone = new_response(api_key, version, groups=[group.entry(response)])
    return encode(alone), errors_in(alone)


async def _fetched(
    services: Services,
    request: "OffsetFetchRequest",
    version: int,
    group: "_Group",
    requested: "OffsetFetchRequestGroup",
) -> OffsetFetchResponse:
    if _is_large(requested):
        return await _fetched_in_parts(services, request, version, group)
    response: OffsetFetchResponse = await submit_and_wait(
        services, partial(_request, request, version, group)
    )
    return response


class _Group:
    """The part of a request for one group, and of the response to it."""

    def __init__(
        self,
        services: Services,
        exchange: Exchange,
        requested: "OffsetFetchRequestGroup",
    ) -> None:
        version = exchange.version
        self._services = services
        self._access = services.access(exchange)
        self._denied: set[str] = set()
        self._version = version
        self.id: str = requested.group_id
        self.member_id: str | None = requested.member_id if version >= 9 else None
        self.member_epoch: int = requested.member_epoch if version >= 9 else -1
        self._everything = requested.topics is None
        self._topics = requested.topics or ()

    @property
    def is_allowed(self) -> bool:
        """Whether the client may describe the group."""
        return self._access.group(self.id)

    def _authorize(self) -> Iterator[None]:
        """Note the topics that the client may not describe; yields after each topic."""
        for topic in self._topics:
            name = self._name(topic)
            if name is not None and not self._access.topic(name):
                self._denied.add(name)
            yield

    def _name(self, topic: "OffsetFetchRequestTopics") -> str | None:
        """The name of a topic; None for an id that no topic has."""
        if self._version < 10:
            return str(topic.name)
        topic_id = topic.topic_id
        existing = None if topic_id is None else self._services.topics.by_id(topic_id)
        return None if existing is None else existing.name

    def _known(self) -> Iterator[tuple[Any, str]]:
        """The requested topics that exist and that the client may describe."""
        for topic in self._topics:
            name = self._name(topic)
            if name is not None and name not in self._denied:
                yield topic, name

    def _visible(self, offsets: Iterable[FetchedOffset]) -> Iterable[FetchedOffset]:
        """The offsets of topics that the client may describe."""
        if not self._services.has_authorizer:
            return offsets
        may_describe = self._access.quietly().topic
        return (offset for offset in offsets if may_describe(offset.topic))

    def requested_partitions(self) -> Generator[None, None, Sequence[TopicPartition]]:
        """The partitions to fetch; yields after each of them."""
        yield from self._authorize()
        partitions: list[TopicPartition] = []
        for topic, name in self._known():
            yield
            for index in topic.partition_indexes:
                partitions.append(TopicPartition(name, index))
                yield
        return partitions

    def partitions(self) -> tuple[TopicPartition, ...] | None:
        """The partitions to fetch from the coordinator, None for all."""
        if self._everything:
            return None
        for _ in self._authorize():
            pass
        return tuple(
            TopicPartition(name, index)
            for topic, name in self._known()
            for index in topic.partition_indexes
        )

    def topic_ids(self) -> dict[str, UUID]:
        """The ids of the requested topics: offsets of a deleted topic of that name are hidden."""
        if self._everything:
            return {topic.name: topic.id for topic in self._services.topics.all()}
        topics = (self._services.topics.get(name) for _, name in self._known())
        return {topic.name: topic.id for topic in topics if topic is not None}

    def entry(self, response: OffsetFetchResponse) -> _Fields:
        """This group's part of the response."""
        fields = {"error_code": response.error, "topics": self._entries(response)}
        return fields | {"group_id": self.id} if self._version >= SEVERAL_GROUPS_SINCE else fields

    async def pack_everything(
        self, response: OffsetFetchResponse, slices: TimeSlices, errors: set[int]
    ) -> list[bytes]:
        """`entry` with all offsets that the group committed, encoded; it adds their errors."""
        version, topics = self._version, self._services.topics
        packed = await pack_topics(
            version,
            self._visible(response.offsets),
            lambda name: None if (topic := topics.get(name)) is None else topic.id,
            slices,
            errors,
        )
        if version >= SEVERAL_GROUPS_SINCE:
            packed.insert(0, pack_compact_string(self.id))
        packed.append(pack_int16(NONE) + (_TAGS if version >= FLEXIBLE_SINCE else b""))
        return packed

    def _entries(self, response: OffsetFetchResponse) -> list[_Fields]:
        if response.error is not NONE:
            in_partitions = self._version == 1 or (
                self._version < SEVERAL_GROUPS_SINCE and response.error in _RETRIED_ERRORS
            )
            return [_refused(topic, response.error) for topic in self._topics if in_partitions]
        if self._everything:
            return self._committed(self._visible(response.offsets))
        refused = (
            _refused(topic, error) for topic in self._topics if (error := self._error(topic))
        )
        return [*self._in_request_order(response.offsets), *refused]

    def _error(self, topic: "OffsetFetchRequestTopics") -> ErrorCode | None:
        """The error of a topic without offsets in the response."""
        name = self._name(topic)
        if name is None:
            return ErrorCode.unknown_topic_id
        return ErrorCode.topic_authorization_failed if name in self._denied else None

    def _in_request_order(self, offsets: Iterable[FetchedOffset]) -> Iterable[_Fields]:
        """An entry per entry of the request; the offsets come in the order of the request."""
        following = iter(offsets)
        for topic, name in self._known():
            partitions = [_partition(next(following)) for _ in topic.partition_indexes]
            yield {
                "name": name,
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": partitions,
            }

    def _committed(self, offsets: Iterable[FetchedOffset]) -> list[_Fields]:
        topics: dict[str, list[_Fields]] = {}
        for offset in offsets:
            topics.setdefault(offset.topic, []).append(_partition(offset))
        if self._version < 10:
            return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        existing = [
            (self._services.topics.get(name), partitions) for name, partitions in topics.items()
        ]
        # A topic that was deleted meanwhile has no id, and cannot be shown.
        return [
            {"topic_id": topic.id, "partitions": partitions}
            for topic, partitions in existing
            if topic is not None
        ]


def _partition(fetched: FetchedOffset) -> _Fields:
    return {
        "partition_index": fetched.partition,
        "committed_offset": fetched.offset,
        "committed_leader_epoch": fetched.leader_epoch,
        "metadata": fetched.metadata,
        "error_code": fetched.error,
    }


def _refused(topic: "OffsetFetchRequestTopics", error: ErrorCode) -> _Fields:
    return {
        "name": getattr(topic, "name", ""),
        "topic_id": getattr(topic, "topic_id", None),
        "partitions": [
            _partition(FetchedOffset("", index, error=error)) for index in topic.partition_indexes
        ],
    }
