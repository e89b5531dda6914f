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
    others: Iterable[NodeRegistered],
    between_nodes: str,
) -> None:
    """Raise KohortError if this node, or one of another machine, cannot be reached by all others.

    `others` are the current nodes, and `between_nodes` is the listener by which nodes connect.
    Other listeners may be for clients of one machine, as with the published ports of containers:
    those are logged only.
    """
    loopback = {each.listener: each for each in advertised if is_named_loopback(each.host)}
    own = loopback.pop(between_nodes, None)
    for other in others:
        if other.machine in (None, machine):
            continue
        if own is not None:
            raise KohortError(
                f"advertised.listeners: {shown(own)} can be reached on this machine only, and node "
                f"{other.id} of the cluster is on another one: name an address that clients and "
                "nodes can reach"
            )
        theirs = _loopback(other.endpoints, between_nodes)
        if theirs is not None:
            raise KohortError(
                f"node {other.id} of the cluster is on another machine and advertises "
                f"{shown(theirs)}, which can be reached there only: start it again with "
                "advertised.listeners that name an address that clients and nodes can reach"
            )
        if loopback:
            logger.warning(
                "listener advertises a loopback address; clients on other machines cannot connect",
                extra=fields(listeners=[shown(each) for each in loopback.values()]),
            )
            loopback = {}


def ensure_connected(problem: str | None, others: Iterable[NodeRegistered]) -> None:
    """Raise KohortError if the settings of this node, or of another one, allow a single node only.

    `problem`: why this one could not connect to others.
    """
    for other in others:
        if problem is not None:
            raise KohortError(
                f"node {other.id} serves from this database, to which this one could not connect: "
                f"{problem}"
            )
        if not other.can_connect:
            raise KohortError(
                f"node {other.id} serves from this database, and could not connect to another "
                "node: start it again with inter.broker.listener.name and what that listener needs"
            )


def _loopback(endpoints: Iterable[Endpoint], listener: str) -> Endpoint | None:
    return next(
        (each for each in endpoints if each.listener == listener and is_named_loopback(each.host)),
        None,
    )


def shown(endpoint: Endpoint) -> str:
    """The endpoint in the syntax of `listeners`."""
    return f"{endpoint.listener}://{Address(endpoint.host, endpoint.port)}"


def warn_of_other_counts(config: Config, topics: Iterable[TopicRecord]) -> None:
    """Log partition counts of internal topics that differ from this node's settings."""
    partitions = {each.name: each.partitions for each in topics}
    for own in coordinator_topics(config):
        found = partitions.get(own.name, own.partitions)
        if found != own.partitions:
            logger.warning(
                "number of partitions in the cluster differs from the settings of this node",
                extra=fields(topic=own.name, cluster=found, settings=own.partitions),
            )
