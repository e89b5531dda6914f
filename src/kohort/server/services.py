"""The parts of a server that handlers of requests use: all but its network."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from kohort.runtime.clock import Clock
from kohort.runtime.groups import Groups
from kohort.runtime.markers import MarkerWriter
from kohort.runtime.transactions import TransactionCoordinator, TransactionVerifier
from kohort.server.authorization import FindAccess, allow_everything
from kohort.server.cluster import Nodes, RemoteController
from kohort.server.config import Config
from kohort.server.controller import Controller
from kohort.server.fetch import FetchSessions
from kohort.server.refused_batches import RefusedBatches
from kohort.server.replicas import Topics
from kohort.server.throttling import Throttling
from kohort.server.tls import Certificates
from kohort.util.heavy_work import HeavyWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of one server, as its handlers see them."""

    config: Config
    certificates: Certificates
    topics: Topics
    controller: Controller
    """Changes the metadata."""
    groups: Groups
    transactions: TransactionCoordinator
    markers: MarkerWriter
    """Writes markers of transactions to partitions of this server."""
    verifier: TransactionVerifier
    """Asks the coordinators of transactions on all nodes."""
    active_controller: RemoteController | None = None
    """The node that changes the cluster; None: this one."""
    fetch_sessions: FetchSessions
    throttling: Throttling
    clock: Clock
    new_id: Callable[[], str]
    """A random UUID in text form, for the member ids that the coordinator assigns."""
    nodes: Nodes
    """The nodes of the cluster, and the leaders of partitions."""
    node_id: int
    cluster_id: str
    access: FindAccess = allow_everything
    """Permissions of the client of a request. Handlers call it for each request."""
    heavy_work: HeavyWork = field(default_factory=HeavyWork)
    refused_batches: RefusedBatches = field(default_factory=RefusedBatches)

    @property
    def has_authorizer(self) -> bool:
        """Whether ACLs are in force."""
        return self.access is not allow_everything

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether the consumer protocol (KIP-848) is one of the server's."""
        return "consumer" in self.config["group.coordinator.rebalance.protocols"]


def random_ids() -> Iterator[str]:
    """Random UUIDs in text form, without end."""
    # One system call gives the bytes of 256 ids: a call per id is measurable when a thousand
    # members join.
    while True:
        random = os.urandom(16 * 256)
        for start in range(0, len(random), 16):
            yield str(UUID(bytes=random[start : start + 16], version=4))
