"""Where the logs that other nodes lead begin and end, for the lag of groups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kohort.log.remote_log import RemoteLog
from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.internode.transactions import NodeConnections
from kohort.server.cluster.nodes import Nodes
from kohort.server.topics import Topics
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

AT_ONCE: Final = 500
"""Partitions of one request: encoding one takes 20 µs."""
WITHIN_S: Final = 2.0
"""Time that a node has for its response: who looks at lags waits for no node that hangs."""
_LIST_OFFSETS: Final = BY_NAME["list_offsets"].key
_VERSION: Final = 5
_LATEST: Final = -1
_EARLIEST: Final = -2


class Span(NamedTuple):
    """The records of a log: from the start offset to the high watermark."""

    start: int
    end: int


FindSpans: TypeAlias = Callable[
    [Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, Span]]
]
"""The spans of those partitions that exist, as far as their leaders tell."""


async def local_spans(
    partitions: Iterable[TopicPartition], topics: Topics
) -> tuple[dict[TopicPartition, Span], list[TopicPartition]]:
    """The spans of the partitions that have their logs here, and the partitions led elsewhere."""
    spans, elsewhere, slices = {}, [], TimeSlices()
    for partition in partitions:
        log = topics.log(*partition)
        if isinstance(log, RemoteLog):
            elsewhere.append(partition)
        elif log is not None:
            spans[partition] = Span(log.start_offset, log.high_watermark)
        await slices.give_way()
    return spans, elsewhere


class RoutedSpans:
    """Asks the leaders of partitions, whichever nodes they are."""

    def __init__(self, nodes: Nodes, topics: Topics, connect: Callable[[int], Connect]) -> None:
        """`connect` tells how each node is reached."""
        self._nodes = nodes
        self._topics = topics
        self._connections = NodeConnections(connect, WITHIN_S)

    async def find(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Span]:
        """The spans of those partitions that exist and whose leaders respond."""
        spans, elsewhere = await local_spans(partitions, self._topics)
        leaders = {
            topic.name: self._nodes.leaders(topic)
            for name in {each.topic for each in elsewhere}
            if (topic := self._topics.get(name)) is not None
        }
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in elsewhere:
            if partition.topic in leaders:
                node = leaders[partition.topic][partition.partition].node
                by_node.setdefault(node, []).append(partition)
        found = await asyncio.gather(*(self._ask(node, by_node[node]) for node in by_node))
        for each in found:
            spans |= each
        return spans

    async def _ask(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Span]:
        spans: dict[TopicPartition, Span] = {}
        try:
            for at in range(0, len(partitions), AT_ONCE):
                some = partitions[at : at + AT_ONCE]
                starts = await self._offsets(node, some, _EARLIEST)
                ends = await self._offsets(node, some, _LATEST)
                spans |= {each: Span(starts[each], ends[each]) for each in starts if each in ends}
        except NodeUnreachableError:
            pass
        return spans

    async def _offsets(
        self, node: int, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(
                {"partition_index": partition, "timestamp": timestamp}
            )
        response = await self._connections.to(node).ask(
            _LIST_OFFSETS,
            _VERSION,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": name, "partitions": each} for name, each in by_topic.items()],
        )
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in response.topics
            for each in topic.partitions
            if not each.error_code
        }

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._connections.close()
