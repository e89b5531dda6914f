"""Cluster node: joins the cluster of a shared storage, and connects the parts of a node."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from kohort.cluster import DuplicateNodeIdError, FencedError, SharedStorage, UnknownOutcomeError
from kohort.cluster import Endpoint as NodeEndpoint
from kohort.errors import KohortError
from kohort.log.base import LogDirectory
from kohort.log.partition_mark import new_cluster_id
from kohort.log.shared_directory import SharedLogDirectory
from kohort.runtime.clock import Clock
from kohort.security.peer import Endpoint
from kohort.server.cluster.cluster_role import Dispatch, Participant, RequestT
from kohort.server.cluster.internode import (
    ByListener,
    Connect,
    NodeUnreachableError,
    RemoteController,
    Routes,
    by_socket,
)
from kohort.server.cluster.join_checks import (
    ensure_connected,
    ensure_reachable,
    format_endpoint,
    this_machine,
    warn_of_other_counts,
)
from kohort.server.cluster.leadership_loop import LeadershipLoop
from kohort.server.cluster.node_status import STARTING, NodeStatus
from kohort.server.cluster.nodes import ClusterNodes, Nodes, RecentlyDepartedNodes
from kohort.server.cluster.registration import NodeSettings
from kohort.server.config import Config, storage_without_secrets
from kohort.server.controller import Controller, SharedController, coordinator_topics
from kohort.server.logging import fields
from kohort.server.metadata import ClusterIdRecord, MetadataRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import SharedReplicaManager, ensure_same_cluster
from kohort.server.tls import Certificates

logger = logging.getLogger("kohort.cluster")

_RETRY_AFTER_S: Final = 0.1
STARTUP_TIMEOUT_S: Final = 60.0
"""Longest wait for the storage at startup."""
LEADING_TIMEOUT_S: Final = 10.0


class ClusterBackend(Protocol):
    """Shared storage of a cluster, as one node uses it."""

    @property
    def storage(self) -> SharedStorage: ...

    @property
    def logs(self) -> SharedLogDirectory: ...

    async def open(self) -> None:
        """Read what is stored. Raises OSError, KohortError, and may be called again."""
        ...

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        ...


class SharedNode:
    """The `ClusterRole` of a node on a shared storage."""

    controller: RemoteController | None = None
    """Any node changes topics itself."""

    def __init__(
        self,
        shared: ClusterBackend,
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
        self._metadata = SharedMetadataLog(shared.storage, clock.timestamp)
        inter_broker = config.inter_broker
        self._by_listener = (
            None
            if inter_broker is None
            else ByListener(inter_broker, certificates, self._endpoint_of)
        )
        self._no_connection_reason = config.no_inter_broker if sockets is None else None
        """Reason why this node cannot connect to others; None: it can."""
        self._startup_error: str | None = None
        """Last error that delayed the startup."""
        self._leadership: LeadershipLoop | None = None
        self._recently_departed = RecentlyDepartedNodes(clock.now)
        self._replicas: SharedReplicaManager
        self.node_socket = None if sockets is None else self._socket_of(sockets, self._node_id)
        self.participant: Participant | None = self
        self.nodes: Nodes
        self.routes: Routes

    def _connect(self, node_id: int) -> Connect:
        if self._sockets is not None:
            return by_socket(self._socket_of(self._sockets, node_id))
        if self._by_listener is None:
            return self._unconnected
        return self._by_listener.connect(node_id)

    async def _unconnected(self) -> NoReturn:
        raise NodeUnreachableError(self._no_connection_reason)

    def _endpoint_of(self, node_id: int, listener: str) -> NodeEndpoint | None:
        node = self._metadata.state.cluster.nodes.get(node_id)
        endpoints = () if node is None else node.endpoints
        return next((endpoint for endpoint in endpoints if endpoint.listener == listener), None)

    def _socket_of(self, sockets: Path, node_id: int) -> str:
        return str(sockets / f"{node_id}.sock")

    async def open_logs(self, opened: AsyncExitStack) -> LogDirectory:
        """Claim the node id, and read the cluster's metadata; the logs, of which none is led yet.

        `opened` closes the storage. Raises KohortError.
        """
        opened.push_async_callback(self.shared.close)
        storage_name = storage_without_secrets(self._config["storage"])
        try:
            await self.shared.open()
        except OSError as error:
            raise KohortError(f"{storage_name} cannot be used: {error}") from error
        try:
            async with asyncio.timeout(STARTUP_TIMEOUT_S):
                await self._join_when_possible()
        except TimeoutError as error:
            why = f": {self._startup_error}" if self._startup_error else ""
            raise KohortError(f"{storage_name} does not respond{why}") from error
        return self.shared.logs

    async def _join_when_possible(self) -> None:
        while True:
            try:
                self._claimed_at = self._clock.now()
                await self._claim()
                while await self._metadata.decide(self._bootstrap_records):
                    pass
                await self._ensure_fits()
                return
            except (OSError, UnknownOutcomeError, FencedError) as error:
                self._report_startup_error(str(error) or type(error).__name__)
                await asyncio.sleep(_RETRY_AFTER_S)

    def _report_startup_error(self, why: str) -> None:
        """Log an error that delays the startup, when it differs from the last one."""
        if why != self._startup_error:
            logger.warning("cannot join the cluster yet, retrying", extra=fields(why=why))
        self._startup_error = why

    async def _claim(self) -> None:
        """Raises DuplicateNodeIdError with the address of the process that has the node id."""
        try:
            await self.shared.storage.claim()
        except DuplicateNodeIdError as error:
            await self._metadata.read_to_end()
            holder = self._metadata.state.cluster.nodes.get(self._node_id)
            if holder is None or not holder.endpoints:
                raise
            raise DuplicateNodeIdError(
                self._node_id, format_endpoint(holder.endpoints[0])
            ) from error

    async def _ensure_fits(self) -> None:
        """Check this node against the cluster. Raises KohortError after ending the session."""
        cluster = self._metadata.state.cluster
        observed = await self.shared.storage.observe()
        other_nodes = [
            node
            for node in cluster.nodes.values()
            if node.id != self._node_id and not observed.is_gone(node.id, node.session)
        ]
        listeners = self._config.listeners
        inter_broker = self._config.inter_broker
        between_nodes = listeners[0] if inter_broker is None else inter_broker.listener
        advertised = [NodeEndpoint(listener.name, *listener.advertised) for listener in listeners]
        try:
            ensure_same_cluster(self.shared.logs.directories, self._metadata.state)
            ensure_connected(self._no_connection_reason, other_nodes)
            ensure_reachable(advertised, this_machine(), other_nodes, between_nodes.name)
        except KohortError:
            await self.shared.storage.release()
            raise
        if self._no_connection_reason is not None:
            logger.info(
                "no other node can join the cluster", extra=fields(why=self._no_connection_reason)
            )
        warn_of_other_counts(self._config, self._metadata.state.topics.values())

    def _bootstrap_records(self) -> Sequence[MetadataRecord]:
        """Records that a new cluster starts with and this one lacks."""
        state = self._metadata.state
        names = {topic.name for topic in state.topics.values()}
        missing: list[MetadataRecord] = [
            topic for topic in coordinator_topics(self._config) if topic.name not in names
        ]
        if not state.cluster_id:
            cluster_id = self.shared.logs.directories.cluster_id or new_cluster_id()
            missing.insert(0, ClusterIdRecord(cluster_id))
        return missing

    def open_controller(self, logs: LogDirectory) -> Controller:  # noqa: ARG002 (those of `shared`)
        """The topics. This node leads none of their partitions yet."""
        controller = SharedController(self.shared.logs, self._config, self._metadata)
        self._replicas, topics = controller.replicas, controller.replicas.topics
        self.nodes = ClusterNodes(
            self._metadata.state.cluster,
            topics,
            self._node_id,
            lambda: self.shared.storage.session,
            self._config["broker.rack"],
            self._recently_departed,
        )
        self.routes = Routes(self._node_id, self.nodes, topics, self._connect)
        return controller

    async def start(self, endpoints: Iterable[Endpoint], on_lost: Callable[[], object]) -> None:
        """Register in the cluster and lead partitions. `endpoints` are what clients connect to.

        Returns when this node leads its partitions, or after `LEADING_TIMEOUT_S`. `on_lost` is
        called when the node cannot continue.
        """
        settings = NodeSettings(
            endpoints=[
                NodeEndpoint(endpoint.listener, endpoint.host, endpoint.port)
                for endpoint in endpoints
            ],
            rack=self._config["broker.rack"],
            can_connect=self._no_connection_reason is None,
            rebalance_delay_ms=self._config["cluster.rebalance.delay.ms"],
            drain_timeout_ms=self._config["cluster.drain.timeout.ms"],
        )
        self._leadership = LeadershipLoop(
            self.shared.storage,
            self._metadata,
            self._replicas,
            self._clock,
            settings,
            claimed_at=self._claimed_at,
            on_membership_change=self._recently_departed.update,
        )
        self._leadership.start(on_lost)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEADING_TIMEOUT_S):
                await self._leadership.wait_for_first_pass()

    def with_lease_check(self, dispatch: Dispatch[RequestT]) -> Dispatch[RequestT]:
        """`dispatch`, delayed from the end of the lease until it is renewed or nothing is led."""

        def guard(
            exchange: RequestT, frame: bytes, body_offset: int
        ) -> Coroutine[Any, Any, None] | None:
            if self._leadership is None or self._leadership.lease.may_serve:
                return dispatch(exchange, frame, body_offset)
            return self._dispatch_with_lease(dispatch, exchange, frame, body_offset)

        return guard

    async def _dispatch_with_lease(
        self, dispatch: Dispatch[RequestT], exchange: RequestT, frame: bytes, body_offset: int
    ) -> None:
        assert self._leadership is not None
        await self._leadership.lease.wait_until_may_serve()
        coroutine = dispatch(exchange, frame, body_offset)
        if coroutine is not None:
            await coroutine

    def status(self) -> NodeStatus:
        """Current status of this node."""
        return STARTING if self._leadership is None else self._leadership.status()

    async def leave(self) -> None:
        """Hand the partitions of this node over to other nodes. Idempotent."""
        if self._leadership is not None:
            await self._leadership.leave()
