"""Status of a node in its cluster, for metrics and probes; log of nodes that join and leave."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.cluster import NodeRegistered, TopicKind
from kohort.server.addresses import Address
from kohort.server.logging import fields

logger = logging.getLogger("kohort.cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """Status of a node on a shared storage."""

    nodes: int = 0
    """Registered nodes of the cluster, as far as this one has read the metadata log."""
    led_by_kind: Mapping[TopicKind, int] = field(default_factory=dict)
    """Partitions that it leads."""
    awaited: int = 0
    """Partitions that are assigned to it, and not open yet."""
    leaderships_gained: int = 0
    """Number of partitions that it has begun to lead since its start."""
    leaderships_lost: int = 0
    """Number of partitions that it has closed since its start."""
    has_lease: bool = False
    is_registered: bool = False
    """Whether its current session is logged, and it has led its assigned partitions once."""
    lease_age_s: float = 0.0
    """Time since its lease began, or was renewed."""
    sessions: int = 0
    """Sessions that it has begun."""
    unresponsive_s: float = 0.0
    """Time for which the storage has not responded; 0: it does."""
    error: str | None = None
    """Current error, if there is one."""

    @property
    def is_ready(self) -> bool:
        """Whether it serves all assigned partitions, except shards that are loading."""
        return self.has_lease and self.is_registered and not self.awaited

    def reasons(self) -> list[str]:
        """Reasons why it is not healthy; empty if it is."""
        reasons = []
        if self.unresponsive_s:
            reasons.append(
                f"the database has not responded for {self.unresponsive_s:.0f} s: {self.error}"
            )
        if not self.has_lease:
            why = f": {self.error}" if self.error and not reasons else ""
            reasons.append(f"this node has no lease, and leads nothing{why}")
        elif self.error and not self.is_registered:
            reasons.append(f"this node cannot register: {self.error}")
        return reasons


STARTING: Final = NodeStatus(error="it is starting")
"""A node that has not registered yet."""


class MembershipLogger:
    """Logs when other nodes join the cluster, are drained, or leave it."""

    def __init__(self, node_id: int) -> None:
        """`node_id` is this node, whose own changes are not logged."""
        self._node_id = node_id
        self._previous: dict[int, NodeRegistered] | None = None

    def update(self, nodes: Mapping[int, NodeRegistered]) -> None:
        """Log the changes since the last call. `nodes` are those of the cluster, by id."""
        previous = self._previous
        current = {number: node for number, node in nodes.items() if number != self._node_id}
        self._previous = current
        if previous is None:
            if current:
                logger.info("other nodes are in the cluster", extra=fields(others=sorted(current)))
            return
        for number in sorted(previous.keys() - current.keys()):
            logger.info("node left the cluster", extra=fields(other=number))
        for number, node in sorted(current.items()):
            former = previous.get(number)
            if former is None or former.session != node.session:
                logger.info("node joined the cluster", extra=_node_fields(node))
            elif node.is_draining and not former.is_draining:
                logger.info("node is draining", extra=fields(other=number))


def _node_fields(node: NodeRegistered) -> dict[str, dict[str, object]]:
    addresses = [str(Address(endpoint.host, endpoint.port)) for endpoint in node.endpoints]
    return fields(other=node.id, addresses=addresses)
