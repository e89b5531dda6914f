"""Workers: server processes of one machine, each a node of the same cluster.

Worker 0 writes the metadata log and is the controller. The others follow the log, and forward
changes to worker 0. Each has the logs of a fixed share of the partitions, in its own directory.
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
from kohort.server.cluster.cluster_role import Dispatch, RequestT
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
from kohort.server.metadata import INTERNAL, METADATA
from kohort.server.topics import FollowedMetadata, FollowedTopics, Topics
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.serve")

_RETRY_AFTER_S: Final = 0.05
_WARN_AFTER_S: Final = 10.0
"""Time without a response of worker 0 after which a warning is logged."""


def place_of(workers: int) -> Callable[[TopicPartition], int]:
    """Function from a partition to the index of the worker that has its log."""
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
        """Number of data directories of this worker."""
        return self.count if self.is_controller else 1

    @property
    def is_controller(self) -> bool:
        return self.index == 0

    def leads(self, partition: TopicPartition) -> bool:
        """Whether this worker has the log of a partition."""
        return worker_of(partition, self.count) == self.index


def _ended(lost: Callable[[], object], following: asyncio.Task[None]) -> None:
    if not following.cancelled() and (error := following.exception()) is not None:
        logger.error("cannot follow the controller; stopping", exc_info=error)
        lost()


def http_socket_of(sockets: Path, index: int) -> str:
    """The path of a worker's HTTP port."""
    return str(sockets / f"{index}.http")


class WorkerRole:
    """The `ClusterRole` of a worker."""

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

    async def join_cluster(self) -> None:
        """Read the metadata log of worker 0 up to its current end.

        Waits without a limit until worker 0 has checked its logs. A prefix of the metadata log is
        not enough: partitions of topics that are missing in it would be moved aside as strays.
        """
        if self._follower is None:
            return
        loop = asyncio.get_running_loop()
        warn_at: float | None = loop.time() + _WARN_AFTER_S
        known, end_offset = self._metadata, None
        while (
            end_offset is None or known.end_offset < end_offset or not self._has_bootstrap_records()
        ):
            try:
                fetched = await self._follower.read(known.end_offset)
            except (NodeUnreachableError, KafkaError) as error:
                if warn_at is not None and loop.time() > warn_at:
                    logger.warning("worker 0 is not serving yet", extra=fields(why=error))
                    warn_at = None
                await asyncio.sleep(_RETRY_AFTER_S)
                continue
            for offset, record in fetched.records:
                known.replay(offset, record)
            if not fetched.records:
                known.skip(fetched.end_offset)
            end_offset = end_offset or fetched.end_offset
        self.cluster_id = known.state.cluster_id

    def _has_bootstrap_records(self) -> bool:
        names = {topic.name for topic in self._metadata.state.topics.values()}
        return bool(self._metadata.state.cluster_id) and names >= INTERNAL

    def open_topics(self, logs: LogDirectory) -> Topics:
        """The topics and the logs of this worker. Blocks on the disk; raises as `Topics`."""
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

    def bind_topics(self, topics: Topics) -> None:
        """Set the topics whose leaders `nodes` reports."""
        self.nodes = Workers(
            topics,
            count=self._worker.count,
            index=self._worker.index,
            first_id=self._node_id - self._worker.index,
            rack=self._config["broker.rack"],
        )

    def start(self, topics: Topics, _: object, lost: Callable[[], object]) -> None:
        """Follow the metadata log of worker 0; `lost` is called when that fails for good."""
        if self._follower is None:
            return
        assert isinstance(topics, FollowedTopics)
        self._following = asyncio.create_task(self._follower.run(topics))
        self._following.add_done_callback(partial(_ended, lost))

    async def wait_until_leading(self) -> None:
        """No-op: a worker leads its partitions as soon as they are open."""

    def with_lease_check(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch` itself: the partitions of a worker do not move, so there is no lease."""
        return dispatch

    def markers(self, topics: Topics, local: MarkerWriter) -> MarkerWriter:
        """Writer of transaction markers to the partitions of all nodes."""
        return RoutedMarkers(self._node_id, self.nodes, topics, local, self._connections)

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        """Verifier of transactions that any node coordinates."""
        return RoutedVerifier(self._node_id, self.nodes, local, self._connections)

    def spans(self, topics: Topics) -> FindSpans:
        """Lookup of the first and last offsets of logs on all nodes."""
        self._spans = RoutedSpans(self.nodes, topics, self._connect)
        return self._spans.find

    def status(self) -> None:
        """None: a worker has no lease and no changes of leaders."""

    async def groups_elsewhere(self) -> None:
        """Not used: the parent process merges the groups of all workers."""

    async def leave(self) -> None:
        """No-op: the partitions of a worker cannot move."""

    def close(self) -> None:
        """Close the connections to other nodes. Idempotent."""
        if self._following is not None:
            self._following.cancel()
        if self._follower is not None:
            self._follower.close()
        if self.controller is not None:
            self.controller.close()
        if self._spans is not None:
            self._spans.close()
        self._connections.close()
