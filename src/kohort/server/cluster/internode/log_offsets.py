"""Start offsets and high watermarks of logs on other nodes, for the lag of groups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kohort.log.remote_log import RemoteLog
from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.internode.transactions import NodeConnections
from kohort.server.cluster.nodes import Nodes
from kohort.server.replicas import Topics
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

REQUEST_BATCH: Final = 500
"""Partitions of one request: encoding one takes 20 µs."""
RESPONSE_TIMEOUT_S: Final = 2.0
"""Timeout of a response; a page of lags does not wait longer for a node that hangs."""
_LIST_OFFSETS: Final = BY_NAME["list_offsets"].key
_VERSION: Final = 5
_LATEST: Final = -1
_EARLIEST: Final = -2


class LogOffsets(NamedTuple):
    """Start offset and high watermark of a log."""

    start: int
    end: int


FindLogOffsets: TypeAlias = Callable[
    [Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, LogOffsets]]
]
"""Offsets of the partitions that exist and whose leaders respond."""


async def local_log_offsets(
    partitions: Iterable[TopicPartition], topics: Topics
) -> tuple[dict[TopicPartition, LogOffsets], list[TopicPartition]]:
    """Offsets of the local partitions, and the partitions that other nodes lead."""
    offsets, elsewhere, slices = {}, [], TimeSlices()
    for partition in partitions:
        log = topics.log(*partition)
        if isinstance(log, RemoteLog):
            elsewhere.append(partition)
        elif log is not None:
            offsets[partition] = LogOffsets(log.start_offset, log.high_watermark)
        await slices.give_way()
    return offsets, elsewhere


class RoutedLogOffsets:
    """Gets offsets from the leaders of partitions, this node or others."""

    def __init__(self, nodes: Nodes, topics: Topics, connect: Callable[[int], Connect]) -> None:
        """`connect` returns the function that connects to a node."""
        self._nodes = nodes
        self._topics = topics
        self._connections = NodeConnections(connect, RESPONSE_TIMEOUT_S)

    async def find(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, LogOffsets]:
        """The offsets of those partitions that exist and whose leaders respond."""
        offsets, elsewhere = await local_log_offsets(partitions, self._topics)
        leaders = {
            topic.name: self._nodes.leaders(topic)
            for name in {partition.topic for partition in elsewhere}
            if (topic := self._topics.get(name)) is not None
        }
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in elsewhere:
            if partition.topic in leaders:
                node = leaders[partition.topic][partition.partition].node
                by_node.setdefault(node, []).append(partition)
        responses = await asyncio.gather(*(self._ask(node, by_node[node]) for node in by_node))
        for response in responses:
            offsets |= response
        return offsets

    async def _ask(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LogOffsets]:
        offsets: dict[TopicPartition, LogOffsets] = {}
        try:
            for start in range(0, len(partitions), REQUEST_BATCH):
                batch = partitions[start : start + REQUEST_BATCH]
                starts = await self._offsets(node, batch, _EARLIEST)
                ends = await self._offsets(node, batch, _LATEST)
                offsets |= {
                    partition: LogOffsets(starts[partition], ends[partition])
                    for partition in starts
                    if partition in ends
                }
        except NodeUnreachableError:
            pass
        return offsets

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
            topics=[{"name": name, "partitions": indexes} for name, indexes in by_topic.items()],
        )
        return {
            TopicPartition(
                topic.name, partition_response.partition_index
            ): partition_response.offset
            for topic in response.topics
            for partition_response in topic.partitions
            if not partition_response.error_code
        }

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._connections.close()
