"""Several processes on one machine that serve one cluster, each a node of its own.

Worker 0 writes the metadata log and is the controller. The others follow it, and send on what would
change it. Each has the logs of a fixed share of the partitions, below a directory of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from kohort.cluster import worker_of
from kohort.errors import KafkaError
from kohort.log.base import LogDirectory
from kohort.runtime.clock import Clock
from kohort.runtime.markers import MarkerWriter
from kohort.runtime.transactions import TransactionVerifier
from kohort.server.cluster.cluster_parts import Dispatch, RequestT
from kohort.server.cluster.internode import (
    Connect,
    FindSpans,
    MetadataFollower,
    NodeConnection,
    NodeConnections,
    NodeUnreachableError,
    RemoteController,
    RoutedMarkers,
    RoutedSpans,
    RoutedVerifier,
    by_socket,
)
from kohort.server.cluster.nodes import Nodes, Workers
from kohort.server.config import Config
from kohort.server.logging import fields
from kohort.server.topics import (
    INTERNAL,
    METADATA,
    FollowedMetadata,
    FollowedTopics,
    Topics,
)
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.serve")

_RETRY_AFTER_S: Final = 0.05
_TELL_AFTER_S: Final = 10.0
"""Time until the log says that the controller does not serve yet."""


def place_of(workers: int) -> Callable[[TopicPartition], int]:
    """The worker, of so many, that has the log of a partition."""
    return lambda partition: 0 if partition == METADATA else worker_of(partition, workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of `count` workers."""

    index: int
    count: int
    sockets: Path
    """Directory of the sockets by which the workers talk to each other; nobody else may enter it.
    """
    is_observed: bool = False
    """Whether it serves the routes of the HTTP port on `http_socket`, for all workers' port."""

    def socket_of(self, index: int) -> str:
        return str(self.sockets / f"{index}.sock")

    @property
    def http_socket(self) -> str | None:
        return http_socket_of(self.sockets, self.index) if self.is_observed else None

    @property
    def directories(self) -> int:
        """Over how many data directories that of this worker is spread."""
        return self.count if self.is_controller else 1

    @property
    def is_controller(self) -> bool:
        return self.index == 0

    def leads(self, partition: TopicPartition) -> bool:
        """Whether this worker has the log of a partition."""
        return worker_of(partition, self.count) == self.index


def _ended(lost: Callable[[], object], following: asyncio.Task[None]) -> None:
    if not following.cancelled() and (error := following.exception()) is not None:
        logger.error("the controller cannot be followed; this process ends", exc_info=error)
        lost()


def http_socket_of(sockets: Path, index: int) -> str:
    """The path of a worker's HTTP port."""
    return str(sockets / f"{index}.http")


class WorkerParts:
    """The `ClusterParts` of a worker."""

    def __init__(self, worker: Worker, config: Config, clock: Clock) -> None:
        self._worker = worker
        self._config = config
        self._clock = clock
        self._node_id: int = config["node.id"]
        self.node_socket = worker.socket_of(worker.index)
        self.http_socket = worker.http_socket
        self.directories = worker.directories
        self.controller: RemoteController | None = None
        self.cluster_id: str | None = None
        self.nodes: Nodes
        self._follower: MetadataFollower | None = None
        self._following: asyncio.Task[None] | None = None
        self._metadata = FollowedMetadata()
        self._connections = NodeConnections(self._connect)
        self._spans: RoutedSpans | None = None
        if not worker.is_controller:
            first = by_socket(worker.socket_of(0))
            self.controller = RemoteController(self._node_id, NodeConnection(first))
            self._follower = MetadataFollower(self._node_id, NodeConnection(first))

    def _connect(self, node_id: int) -> Connect:
        return by_socket(self._worker.socket_of(self._worker.index + node_id - self._node_id))

    async def begin(self) -> None:
        """Learn what the controller knows, once it serves, however long it checks its logs.

        All that it knows now: a partition of an unknown topic would be set aside.
        """
        if self._follower is None:
            return
        loop = asyncio.get_running_loop()
        tell_at: float | None = loop.time() + _TELL_AFTER_S
        known, end_offset = self._metadata, None
        while end_offset is None or known.end_offset < end_offset or not self._knows_enough():
            try:
                news = await self._follower.read(known.end_offset)
            except (NodeUnreachableError, KafkaError) as error:
                if tell_at is not None and loop.time() > tell_at:
                    logger.warning("worker 0 does not serve yet", extra=fields(why=error))
                    tell_at = None
                await asyncio.sleep(_RETRY_AFTER_S)
                continue
            for offset, record in news.records:
                known.replay(offset, record)
            if not news.records:
                known.skip(news.end_offset)
            end_offset = end_offset or news.end_offset
        self.cluster_id = known.state.cluster_id

    def _knows_enough(self) -> bool:
        names = {topic.name for topic in self._metadata.state.topics.values()}
        return bool(self._metadata.state.cluster_id) and names >= INTERNAL

    def open_topics(self, logs: LogDirectory) -> Topics:
        """The topics, as far as their logs are here. Blocks on the disk; raises as `Topics`."""
        if self.controller is None:
            return Topics(logs, self._config, self._clock.timestamp, self._worker.leads)
        return FollowedTopics(
            logs,
            self._config,
            self._clock.timestamp,
            self._worker.leads,
            self._metadata,
            self.controller,
        )

    def know(self, topics: Topics) -> None:
        """Find the leaders of these topics from now on."""
        self.nodes = Workers(
            topics,
            count=self._worker.count,
            index=self._worker.index,
            first_id=self._node_id - self._worker.index,
            rack=self._config["broker.rack"],
        )

    def start(self, topics: Topics, _: object, lost: Callable[[], object]) -> None:
        """Follow the controller from now on; `lost` is called if that cannot go on."""
        if self._follower is None:
            return
        assert isinstance(topics, FollowedTopics)
        self._following = asyncio.create_task(self._follower.run(topics))
        self._following.add_done_callback(partial(_ended, lost))

    async def begun(self) -> None:
        """No-op: a worker has opened what it leads."""

    def guarded(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch`: what a worker leads, no other one takes."""
        return dispatch

    def markers(self, topics: Topics, local: MarkerWriter) -> MarkerWriter:
        """Where transactions end: in the partitions of all nodes."""
        return RoutedMarkers(self._node_id, self.nodes, topics, local, self._connections)

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        """Who knows the transactions of all nodes."""
        return RoutedVerifier(self._node_id, self.nodes, local, self._connections)

    def spans(self, topics: Topics) -> FindSpans:
        """Who knows where the logs of all nodes begin and end."""
        self._spans = RoutedSpans(self.nodes, topics, self._connect)
        return self._spans.find

    def status(self) -> None:
        """The partitions of this node are always its own."""

    async def groups_elsewhere(self) -> None:
        """Who looks at groups asks all workers."""

    async def leave(self) -> None:
        """Nobody else can lead what this node leads."""

    def close(self) -> None:
        """Ask other nodes nothing more. Idempotent."""
        if self._following is not None:
            self._following.cancel()
        if self._follower is not None:
            self._follower.close()
        if self.controller is not None:
            self.controller.close()
        if self._spans is not None:
            self._spans.close()
        self._connections.close()
