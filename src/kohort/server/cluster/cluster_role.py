"""A server as a node: its logs, the leaders of partitions, and connections to other nodes.

A server has logs of its own, alone or as one of several workers (`LocalNode`), or shares a storage
with other nodes (`SharedNode`).
"""

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeAlias, TypeVar

from kohort.log.base import LogDirectory
from kohort.security.peer import Endpoint
from kohort.server.cluster.internode import RemoteController, Routes
from kohort.server.cluster.nodes import Nodes
from kohort.server.controller import Controller

RequestT = TypeVar("RequestT")
"""A request with the way its response goes back: `server.net.Exchange`, a room above this one."""
Dispatch: TypeAlias = Callable[[RequestT, bytes, int], Coroutine[Any, Any, None] | None]
"""`server.net.Dispatch`."""


class Participant(Protocol):
    """Background part of a node, which follows changes of topics or leaders by other nodes."""

    async def start(self, endpoints: Iterable[Endpoint], on_lost: Callable[[], object]) -> None:
        """Participate in the cluster; return when this node leads its partitions, or cannot yet.

        `endpoints` are what clients connect to. `on_lost` is called when the server cannot
        continue.
        """
        ...

    async def leave(self) -> None:
        """Stop participating. Idempotent."""
        ...


class ClusterRole(Protocol):
    """A server as a node."""

    node_socket: str | None
    """Path of the Unix socket for other nodes; None: there is none."""
    http_socket: str | None
    """Path by which the HTTP port of all servers reaches this one; None: it has its own."""
    controller: RemoteController | None
    """The node that changes the cluster; None: this one."""
    participant: Participant | None
    """None: only this server changes its topics, and leaders never change."""
    nodes: Nodes
    """The nodes of the cluster, once the topics are open."""
    routes: Routes
    """Requests to them, once the topics are open."""

    async def open_logs(self, opened: AsyncExitStack) -> LogDirectory:
        """The logs, after the cluster's metadata is read up to its current end.

        `opened` closes whatever they need. Raises OSError, KohortError.
        """
        ...

    def open_controller(self, logs: LogDirectory) -> Controller:
        """The topics and the logs of this server. Blocks on the disk.

        Raises KohortError, OSError.
        """
        ...
