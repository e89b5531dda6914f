"""OffsetFetch (9) v1-10: the committed offsets of groups.

v2 adds "all topics" (null) and an error for the whole group; v3 the throttle time, v5 the leader
epoch (KIP-320); v6 is flexible; v7 adds require_stable (KIP-447); v8 asks about many groups at once
(KIP-709); v9 brings a member's id and epoch (KIP-848), which a classic group ignores; v10 names
topics by id.

An error of the whole group stands in every partition in v1, at the top in v2-7 and in the group's
entry from v8.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from kohort.coordinator.requests import OffsetFetch
from kohort.coordinator.responses import NONE, FetchedOffset, OffsetFetchResponse
from kohort.errors import ErrorCode
from kohort.protocol.messages import response as new_response
from kohort.server.net import Exchange
from kohort.server.responses import ResponseCollector
from kohort.server.services import Services
from kohort.types import TopicPartition

_Fields: TypeAlias = dict[str, Any]
"""Fields of a struct of the response."""


def handle(services: Services, exchange: Exchange, request: Any) -> None:
    """Ask the shard of every group, and respond once all of them have."""
    version = exchange.version
    groups = [
        _Group(services, version, each) for each in (request.groups if version >= 8 else (request,))
    ]
    collector = ResponseCollector(exchange.callback(_respond, groups))
    for group in groups:
        services.groups.submit(
            OffsetFetch(
                request_id=collector.callback(),
                group=group.id,
                partitions=group.partitions(),
                require_stable=request.require_stable if version >= 7 else False,
                topic_ids=group.topic_ids(),
            )
        )
    collector.seal()


def _respond(
    exchange: Exchange, groups: Sequence["_Group"], responses: Sequence[OffsetFetchResponse]
) -> None:
    entries = [group.entry(response) for group, response in zip(groups, responses, strict=True)]
    fields = {"groups": entries} if exchange.version >= 8 else entries[0]
    exchange.respond(new_response(exchange.api_key, exchange.version, **fields))


class _Group:
    """The part of a request for one group, and of the response to it."""

    def __init__(self, services: Services, version: int, asked: Any) -> None:
        self._services = services
        self._version = version
        self.id: str = asked.group_id
        self._everything = asked.topics is None
        self._topics = [(each, self._name(each)) for each in asked.topics or ()]

    def _name(self, topic: Any) -> str | None:
        """None for an id that no topic has."""
        if self._version < 10:
            return str(topic.name)
        known = self._services.topics.by_id(topic.topic_id) if topic.topic_id is not None else None
        return None if known is None else known.name

    def _known(self) -> list[tuple[Any, str]]:
        return [(each, name) for each, name in self._topics if name is not None]

    def partitions(self) -> tuple[TopicPartition, ...] | None:
        """What to ask the coordinator for, None for everything."""
        if self._everything:
            return None
        return tuple(
            TopicPartition(name, index)
            for each, name in self._known()
            for index in each.partition_indexes
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
        return fields | {"group_id": self.id} if self._version >= 8 else fields

    def _entries(self, response: OffsetFetchResponse) -> list[_Fields]:
        if response.error is not NONE:
            return (
                [_refused(each, response.error) for each, _ in self._topics]
                if self._version == 1
                else []
            )
        if self._everything:
            return self._committed(response.offsets)
        unknown = [
            _refused(each, ErrorCode.unknown_topic_id)
            for each, name in self._topics
            if name is None
        ]
        return [*self._asked_for(response.offsets), *unknown]

    def _asked_for(self, offsets: Iterable[FetchedOffset]) -> Iterable[_Fields]:
        """An entry per entry of the request; the offsets come in the order of the request."""
        following = iter(offsets)
        for each, name in self._known():
            partitions = [_partition(next(following)) for _ in each.partition_indexes]
            yield {
                "name": name,
                "topic_id": getattr(each, "topic_id", None),
                "partitions": partitions,
            }

    def _committed(self, offsets: Iterable[FetchedOffset]) -> list[_Fields]:
        topics: dict[str, list[_Fields]] = {}
        for each in offsets:
            topics.setdefault(each.topic, []).append(_partition(each))
        if self._version < 10:
            return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        known = [
            (self._services.topics.get(name), partitions) for name, partitions in topics.items()
        ]
        # A topic that was deleted meanwhile has no id, and cannot be shown.
        return [
            {"topic_id": topic.id, "partitions": partitions}
            for topic, partitions in known
            if topic is not None
        ]


def _partition(of: FetchedOffset) -> _Fields:
    return {
        "partition_index": of.partition,
        "committed_offset": of.offset,
        "committed_leader_epoch": of.leader_epoch,
        "metadata": of.metadata,
        "error_code": of.error,
    }


def _refused(topic: Any, error: ErrorCode) -> _Fields:
    return {
        "name": getattr(topic, "name", ""),
        "topic_id": getattr(topic, "topic_id", None),
        "partitions": [
            _partition(FetchedOffset("", index, error=error)) for index in topic.partition_indexes
        ],
    }
