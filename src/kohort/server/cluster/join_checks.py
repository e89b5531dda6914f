"""Checks before a node joins a cluster: all nodes must be able to reach each other."""

import logging
import os
import socket
from collections.abc import Iterable

from kohort.cluster import Endpoint, NodeRegistered
from kohort.errors import KohortError
from kohort.server.addresses import Address, is_named_loopback
from kohort.server.config import Config
from kohort.server.controller import coordinator_topics
from kohort.server.logging import fields
from kohort.server.metadata import TopicRecord

logger = logging.getLogger("kohort.cluster")


def this_machine() -> str:
    """Identity of the network that 127.0.0.1 belongs to.

    On Linux: boot id and network namespace, which each container has for itself.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
            return f"{boot_id.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def ensure_reachable(
    advertised: Iterable[Endpoint],
    machine: str,
    nodes: Iterable[NodeRegistered],
    between_nodes: str,
) -> None:
    """Raise KohortError if this node, or one of another machine, cannot be reached by all others.

    `nodes` are the current nodes, and `between_nodes` is the listener by which nodes connect.
    Other listeners may be for clients of one machine, as with the published ports of containers:
    those are logged only.
    """
    loopback = {
        endpoint.listener: endpoint for endpoint in advertised if is_named_loopback(endpoint.host)
    }
    own = loopback.pop(between_nodes, None)
    for node in nodes:
        if node.machine in (None, machine):
            continue
        if own is not None:
            raise KohortError(
                f"advertised.listeners: {format_endpoint(own)} can be reached on this machine "
                f"only, and node {node.id} of the cluster is on another one: name an address that "
                "clients and nodes can reach"
            )
        node_loopback = _loopback(node.endpoints, between_nodes)
        if node_loopback is not None:
            raise KohortError(
                f"node {node.id} of the cluster is on another machine and advertises "
                f"{format_endpoint(node_loopback)}, which can be reached there only: start it "
                "again with advertised.listeners that name an address that clients and nodes can "
                "reach"
            )
        if loopback:
            logger.warning(
                "listener advertises a loopback address; clients on other machines cannot connect",
                extra=fields(
                    listeners=[format_endpoint(endpoint) for endpoint in loopback.values()]
                ),
            )
            loopback = {}


def ensure_connected(problem: str | None, nodes: Iterable[NodeRegistered]) -> None:
    """Raise KohortError if the settings of this node, or of another one, allow a single node only.

    `problem`: why this one could not connect to others.
    """
    for node in nodes:
        if problem is not None:
            raise KohortError(
                f"node {node.id} serves from this database, to which this one could not connect: "
                f"{problem}"
            )
        if not node.can_connect:
            raise KohortError(
                f"node {node.id} serves from this database, and could not connect to another "
                "node: start it again with inter.broker.listener.name and what that listener needs"
            )


def _loopback(endpoints: Iterable[Endpoint], listener: str) -> Endpoint | None:
    return next(
        (
            endpoint
            for endpoint in endpoints
            if endpoint.listener == listener and is_named_loopback(endpoint.host)
        ),
        None,
    )


def format_endpoint(endpoint: Endpoint) -> str:
    """The endpoint in the syntax of `listeners`."""
    return f"{endpoint.listener}://{Address(endpoint.host, endpoint.port)}"


def warn_of_other_counts(config: Config, topics: Iterable[TopicRecord]) -> None:
    """Log partition counts of internal topics that differ from this node's settings."""
    partitions = {topic.name: topic.partitions for topic in topics}
    for expected in coordinator_topics(config):
        partition_count = partitions.get(expected.name, expected.partitions)
        if partition_count != expected.partitions:
            logger.warning(
                "number of partitions in the cluster differs from the settings of this node",
                extra=fields(
                    topic=expected.name, cluster=partition_count, settings=expected.partitions
                ),
            )
