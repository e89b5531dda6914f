"""What a server has of its cluster, by whether it is the only one or one of several."""

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


class ClusterParts(Protocol):
    """The parts of a server that differ."""

    @property
    def node_socket(self) -> str | None:
        """The path of the socket for other nodes; None: there are none."""
        ...

    @property
    def http_socket(self) -> str | None:
        """The path by which the HTTP port of all servers asks this one; None: it has its own."""
        ...

    @property
    def directories(self) -> int:
        """Over how many data directories that of this server is spread."""
        ...

    @property
    def controller(self) -> RemoteController | None:
        """The node that changes the cluster; None: this one."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """The cluster that others have made; None: the logs of this server tell."""
        ...

    @property
    def nodes(self) -> Nodes:
        """The nodes of the cluster, once the topics are known."""
        ...

    async def begin(self) -> None:
        """Know what the others know. Raises KohortError."""
        ...

    def open_topics(self, logs: LogDirectory) -> Topics:
        """The topics, as far as their logs are here. Blocks on the disk; raises as `Topics`."""
        ...

    def know(self, topics: Topics) -> None:
        """Find the leaders of these topics from now on."""
        ...

    def start(
        self, topics: Topics, endpoints: Iterable[Endpoint], lost: Callable[[], object]
    ) -> None:
        """Be one of the cluster from now on, which clients reach at these endpoints.

        `lost` is called if that cannot go on.
        """
        ...

    async def begun(self) -> None:
        """Return when this server leads what it is to lead, as far as it can, after `start`."""
        ...

    def guarded(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch` for as long as no other node can have taken what this one leads."""
        ...

    def markers(self, topics: Topics, local: MarkerWriter) -> MarkerWriter:
        """Where transactions end: in the partitions of all nodes."""
        ...

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        """Who knows the transactions of all nodes."""
        ...

    def spans(self, topics: Topics) -> FindSpans:
        """Who knows where the logs of all nodes begin and end."""
        ...

    def status(self) -> NodeStatus | None:
        """This node in its cluster at this moment; None: it shares no storage."""
        ...

    async def groups_elsewhere(self) -> GroupsElsewhere | None:
        """The groups that other nodes coordinate; None: it shares no storage."""
        ...

    async def leave(self) -> None:
        """Have other nodes lead what this one led. Idempotent."""
        ...

    def close(self) -> None:
        """Ask other nodes nothing more. Idempotent."""
        ...


class OnlyServer:
    """The `ClusterParts` of a server that is alone."""

    node_socket: None = None
    http_socket: None = None
    directories = 1
    controller: None = None
    cluster_id: None = None

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.nodes: Nodes = OneNode(config["node.id"], config["broker.rack"])

    async def begin(self) -> None:
        pass

    def open_topics(self, logs: LogDirectory) -> Topics:
        return Topics(logs, self._config, self._clock.timestamp)

    def know(self, topics: Topics) -> None:
        pass

    def start(
        self, topics: Topics, endpoints: Iterable[Endpoint], lost: Callable[[], object]
    ) -> None:
        pass

    async def begun(self) -> None:
        pass

    def guarded(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
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
