"""One of several nodes that share a storage: what makes a server a part of the cluster."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from kohort.cluster import DuplicateNodeIdError, FencedError, SharedStorage, UnknownOutcomeError
from kohort.cluster import Endpoint as NodeEndpoint
from kohort.errors import KohortError
from kohort.log.base import LogDirectory
from kohort.log.partition_mark import new_cluster_id
from kohort.log.shared import SharedLogDirectory
from kohort.runtime.clock import Clock
from kohort.runtime.markers import MarkerWriter
from kohort.runtime.transactions import TransactionVerifier
from kohort.security.peer import Endpoint
from kohort.server.cluster.cluster_parts import Dispatch, RequestT
from kohort.server.cluster.internode import (
    ByListener,
    Connect,
    FindSpans,
    GroupsElsewhere,
    NodeConnections,
    NodeUnreachableError,
    RemoteController,
    RoutedGroups,
    RoutedMarkers,
    RoutedSpans,
    RoutedVerifier,
    by_socket,
)
from kohort.server.cluster.joining import (
    ensure_connected,
    ensure_reachable,
    shown,
    this_machine,
    warn_of_other_counts,
)
from kohort.server.cluster.node_status import STARTING, NodeStatus
from kohort.server.cluster.nodes import ClusterNodes, RecentlyDepartedNodes
from kohort.server.cluster.ownership import Ownership
from kohort.server.config import Config, shown_storage
from kohort.server.logging import fields
from kohort.server.tls import Certificates
from kohort.server.topics import (
    ClusterIdRecord,
    MetadataRecord,
    SharedMetadata,
    SharedTopics,
    Topics,
    coordinator_topics,
    ensure_same_cluster,
)

logger = logging.getLogger("kohort.cluster")

_RETRY_AFTER_S: Final = 0.1
STARTED_WITHIN_S: Final = 60.0
"""Time that the storage has to respond."""
_BEGUN_WITHIN_S: Final = 10.0


class Shared(Protocol):
    """A storage of several nodes, as one of them has it."""

    @property
    def storage(self) -> SharedStorage: ...

    @property
    def logs(self) -> SharedLogDirectory: ...

    async def open(self) -> None:
        """Know what is stored. Raises OSError, KohortError; it may be called again."""
        ...

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        ...


class SharedNode:
    """The `ClusterParts` of a node that shares a storage with others."""

    directories = 1
    controller: RemoteController | None = None
    """Any node changes topics itself."""

    def __init__(
        self,
        shared: Shared,
        sockets: Path | None,
        config: Config,
        clock: Clock,
        certificates: Certificates,
        *,
        http_socket: str | None = None,
    ) -> None:
        """`sockets` is the directory of those by which the nodes talk to each other.

        Without it, they connect by the listener of `config.inter_broker`. `http_socket` is the path
        by which the HTTP port of several processes asks this one.
        """
        self.shared = shared
        self.http_socket = http_socket
        self._claimed_at = clock.now()
        self._sockets = sockets
        self._config = config
        self._clock = clock
        self._node_id: int = config["node.id"]
        self._metadata = SharedMetadata(shared.storage, clock.timestamp)
        inter_broker = config.inter_broker
        self._by_listener = (
            None
            if inter_broker is None
            else ByListener(inter_broker, certificates, self._endpoint_of)
        )
        self._not_connected = config.no_inter_broker if sockets is None else None
        """Why this node cannot connect to others."""
        self._connections = NodeConnections(self._connect)
        self._groups = RoutedGroups(self._connect)
        self._spans: RoutedSpans | None = None
        self._hindrance: str | None = None
        """What kept the node from starting last."""
        self._ownership: Ownership | None = None
        self._former = RecentlyDepartedNodes(clock.now)
        self.cluster_id: str | None = None
        self.nodes: ClusterNodes

    def _connect(self, node_id: int) -> Connect:
        if self._sockets is not None:
            return by_socket(self._socket_of(self._sockets, node_id))
        if self._by_listener is None:
            return self._unconnected
        return self._by_listener.connect(node_id)

    async def _unconnected(self) -> NoReturn:
        raise NodeUnreachableError(self._not_connected)

    def _endpoint_of(self, node_id: int, listener: str) -> NodeEndpoint | None:
        node = self._metadata.state.cluster.nodes.get(node_id)
        endpoints = () if node is None else node.endpoints
        return next((each for each in endpoints if each.listener == listener), None)

    def _socket_of(self, sockets: Path, node_id: int) -> str:
        return str(sockets / f"{node_id}.sock")

    @property
    def node_socket(self) -> str | None:
        """The path of the socket for other nodes, None without any."""
        return None if self._sockets is None else self._socket_of(self._sockets, self._node_id)

    async def begin(self) -> None:
        """Take the node's place, and know the cluster. Raises KohortError."""
        place = shown_storage(self._config["storage"])
        try:
            await self.shared.open()
        except OSError as error:
            raise KohortError(f"{place} cannot be used: {error}") from error
        try:
            async with asyncio.timeout(STARTED_WITHIN_S):
                await self._begin()
        except TimeoutError as error:
            why = f": {self._hindrance}" if self._hindrance else ""
            raise KohortError(f"{place} does not respond{why}") from error
        self.cluster_id = self._metadata.state.cluster_id

    async def _begin(self) -> None:
        while True:
            try:
                self._claimed_at = self._clock.now()
                await self._claim()
                while await self._metadata.decide(self._missing):
                    pass
                await self._ensure_fits()
                return
            except (OSError, UnknownOutcomeError, FencedError) as error:
                self._tell(str(error) or type(error).__name__)
                await asyncio.sleep(_RETRY_AFTER_S)

    def _tell(self, why: str) -> None:
        """Log what keeps the node from starting, once until that changes."""
        if why != self._hindrance:
            logger.warning(
                "this node cannot start yet, which is tried again", extra=fields(why=why)
            )
        self._hindrance = why

    async def _claim(self) -> None:
        """Raises DuplicateNodeIdError with the address of the process that has the node id."""
        try:
            await self.shared.storage.claim()
        except DuplicateNodeIdError as error:
            await self._metadata.read_on()
            other = self._metadata.state.cluster.nodes.get(self._node_id)
            if other is None or not other.endpoints:
                raise
            raise DuplicateNodeIdError(self._node_id, shown(other.endpoints[0])) from error

    async def _ensure_fits(self) -> None:
        """Raises KohortError, and ends the session."""
        cluster = self._metadata.state.cluster
        observed = await self.shared.storage.observe()
        others = [
            each
            for each in cluster.nodes.values()
            if each.id != self._node_id and not observed.is_gone(each.id, each.session)
        ]
        listeners = self._config.listeners
        inter_broker = self._config.inter_broker
        between_nodes = listeners[0] if inter_broker is None else inter_broker.listener
        advertised = [NodeEndpoint(each.name, *each.advertised) for each in listeners]
        try:
            ensure_same_cluster(self.shared.logs.directories, self._metadata.state)
            ensure_connected(self._not_connected, others)
            ensure_reachable(advertised, this_machine(), others, between_nodes.name)
        except KohortError:
            await self.shared.storage.release()
            raise
        if self._not_connected is not None:
            logger.info("no other node can join", extra=fields(why=self._not_connected))
        warn_of_other_counts(self._config, self._metadata.state.topics.values())

    def _missing(self) -> Sequence[MetadataRecord]:
        """What every cluster has."""
        state = self._metadata.state
        names = {topic.name for topic in state.topics.values()}
        missing: list[MetadataRecord] = [
            topic for topic in coordinator_topics(self._config) if topic.name not in names
        ]
        if not state.cluster_id:
            cluster_id = self.shared.logs.directories.cluster_id or new_cluster_id()
            missing.insert(0, ClusterIdRecord(cluster_id))
        return missing

    def open_topics(self, logs: LogDirectory) -> Topics:  # noqa: ARG002
        """The topics, of which this node leads no partition yet."""
        return SharedTopics(self.shared.logs, self._config, self._clock.timestamp, self._metadata)

    def know(self, topics: Topics) -> None:
        """Find the leaders of these topics from now on."""
        self.nodes = ClusterNodes(
            self._metadata.state.cluster,
            topics,
            self._node_id,
            self._config["broker.rack"],
            self._former,
        )

    def start(
        self,
        topics: Topics,
        endpoints: Iterable[Endpoint],
        lost: Callable[[], object],
    ) -> None:
        """Be a node of the cluster from now on, which clients reach at these endpoints.

        `lost` is called if that cannot go on.
        """
        assert isinstance(topics, SharedTopics)
        self._ownership = Ownership(
            self.shared.storage,
            self._metadata,
            topics,
            self._clock,
            endpoints=[NodeEndpoint(each.listener, each.host, each.port) for each in endpoints],
            rack=self._config["broker.rack"],
            settled_after_ms=self._config["cluster.rebalance.delay.ms"],
            drained_within_ms=self._config["cluster.drain.timeout.ms"],
            claimed_at=self._claimed_at,
            can_connect=self._not_connected is None,
            looked=self._former.update,
        )
        self._ownership.start(lost)

    async def begun(self) -> None:
        """Return when this node has begun to lead what it is to lead, or that takes too long."""
        assert self._ownership is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEGUN_WITHIN_S):
                await self._ownership.begun()

    def guarded(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch`, which waits for the end of a lease that is over."""

        def guard(
            exchange: RequestT, frame: bytes, body_at: int
        ) -> Coroutine[Any, Any, None] | None:
            if self._ownership is None or self._ownership.may_answer:
                return dispatch(exchange, frame, body_at)
            return self._when_settled(dispatch, exchange, frame, body_at)

        return guard

    async def _when_settled(
        self, dispatch: Dispatch[RequestT], exchange: RequestT, frame: bytes, body_at: int
    ) -> None:
        assert self._ownership is not None
        await self._ownership.settled()
        later = dispatch(exchange, frame, body_at)
        if later is not None:
            await later

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

    def status(self) -> NodeStatus:
        """This node at this moment."""
        return STARTING if self._ownership is None else self._ownership.status()

    async def groups_elsewhere(self) -> GroupsElsewhere:
        """The groups that other nodes coordinate."""
        return await self._groups.list(sorted(set(self.nodes.ids) - {self._node_id}))

    async def leave(self) -> None:
        """Have other nodes lead what this one led. Idempotent."""
        if self._ownership is not None:
            await self._ownership.leave()

    def close(self) -> None:
        """Ask other nodes nothing more. Idempotent."""
        if self._spans is not None:
            self._spans.close()
        self._groups.close()
        self._connections.close()
