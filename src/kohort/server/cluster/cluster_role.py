"""Cluster-dependent services of a server: standalone, worker, or cluster node."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from kohort.log.base import LogDirectory
from kohort.runtime.clock import Clock
from kohort.runtime.markers import MarkerWriter
from kohort.runtime.transactions import TransactionVerifier
from kohort.security.peer import Endpoint
from kohort.server.cluster.internode import (
    FindSpans,
    GroupsElsewhere,
    RemoteController,
    Span,
    local_spans,
)
from kohort.server.cluster.node_status import NodeStatus
from kohort.server.cluster.nodes import Nodes, OneNode
from kohort.server.config import Config
from kohort.server.topics import Topics
from kohort.types import TopicPartition

RequestT = TypeVar("RequestT")
"""A request with the way its response goes back: `server.net.Exchange`, a room above this one."""
Dispatch: TypeAlias = Callable[[RequestT, bytes, int], Coroutine[Any, Any, None] | None]
"""`server.net.Dispatch`."""


class ClusterRole(Protocol):
    """What a server does differently as a standalone server, a worker, or a node of a cluster."""

    @property
    def node_socket(self) -> str | None:
        """Path of the Unix socket for other nodes; None: there is none."""
        ...

    @property
    def http_socket(self) -> str | None:
        """Path by which the HTTP port of all servers reaches this one; None: it has its own."""
        ...

    @property
    def directories(self) -> int:
        """Number of data directories of this server."""
        ...

    @property
    def controller(self) -> RemoteController | None:
        """The node that changes the cluster; None: this one."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """Id of a cluster that exists already; None: the logs of this server have it."""
        ...

    @property
    def nodes(self) -> Nodes:
        """The nodes of the cluster, once the topics are known."""
        ...

    async def join_cluster(self) -> None:
        """Read the cluster's metadata up to its current end. Raises KohortError."""
        ...

    def open_topics(self, logs: LogDirectory) -> Topics:
        """The topics and the logs of this server. Blocks on the disk; raises as `Topics`."""
        ...

    def bind_topics(self, topics: Topics) -> None:
        """Set the topics whose leaders `nodes` reports."""
        ...

    def start(
        self, topics: Topics, endpoints: Iterable[Endpoint], lost: Callable[[], object]
    ) -> None:
        """Take part in the cluster. `endpoints` are what clients connect to.

        `lost` is called when the server cannot continue.
        """
        ...

    async def wait_until_leading(self) -> None:
        """After `start`: return when this server leads its partitions, or cannot yet."""
        ...

    def with_lease_check(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch`, delayed while another node may have taken over partitions of this one."""
        ...

    def markers(self, topics: Topics, local: MarkerWriter) -> MarkerWriter:
        """Writer of transaction markers to the partitions of all nodes."""
        ...

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        """Verifier of transactions that any node coordinates."""
        ...

    def spans(self, topics: Topics) -> FindSpans:
        """Lookup of the first and last offsets of logs on all nodes."""
        ...

    def status(self) -> NodeStatus | None:
        """Current status of this node in its cluster; None: it shares no storage."""
        ...

    async def groups_elsewhere(self) -> GroupsElsewhere | None:
        """The groups that other nodes coordinate; None: it shares no storage."""
        ...

    async def leave(self) -> None:
        """Hand the partitions of this node over to other nodes. Idempotent."""
        ...

    def close(self) -> None:
        """Close the connections to other nodes. Idempotent."""
        ...


class StandaloneRole:
    """The `ClusterRole` of a server without other nodes."""

    node_socket: None = None
    http_socket: None = None
    directories = 1
    controller: None = None
    cluster_id: None = None

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.nodes: Nodes = OneNode(config["node.id"], config["broker.rack"])

    async def join_cluster(self) -> None:
        pass

    def open_topics(self, logs: LogDirectory) -> Topics:
        return Topics(logs, self._config, self._clock.timestamp)

    def bind_topics(self, topics: Topics) -> None:
        pass

    def start(
        self, topics: Topics, endpoints: Iterable[Endpoint], lost: Callable[[], object]
    ) -> None:
        pass

    async def wait_until_leading(self) -> None:
        pass

    def with_lease_check(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        return dispatch

    def markers(self, topics: Topics, local: MarkerWriter) -> MarkerWriter:  # noqa: ARG002
        return local

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        return local

    def spans(self, topics: Topics) -> FindSpans:
        return partial(_local_spans, topics)

    def status(self) -> NodeStatus | None:
        return None

    async def groups_elsewhere(self) -> GroupsElsewhere | None:
        return None

    async def leave(self) -> None:
        pass

    def close(self) -> None:
        pass


async def _local_spans(
    topics: Topics, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Span]:
    spans, _ = await local_spans(partitions, topics)
    return spans
