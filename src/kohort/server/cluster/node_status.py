"""What a node of a cluster is and has at one moment, and which others come and go.

For those who watch it.
"""

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
    """A node that shares a storage with others."""

    nodes: int = 0
    """Nodes of the cluster that are there, as far as this one knows."""
    led: Mapping[TopicKind, int] = field(default_factory=dict)
    """Partitions that it leads."""
    awaited: int = 0
    """Partitions that it is to lead, and has not taken yet."""
    taken: int = 0
    """Times that it began to lead a partition."""
    given_up: int = 0
    """Times that it gave one up."""
    has_lease: bool = False
    is_registered: bool = False
    """Whether others know its present session, and it has once led what it has to lead."""
    lease_age_s: float = 0.0
    """Time since its lease began, or was renewed."""
    sessions: int = 0
    """Sessions that it has begun."""
    away_s: float = 0.0
    """Time for which the storage has not responded; 0: it does."""
    trouble: str | None = None
    """Why it cannot take part now, if that is known."""

    @property
    def is_ready(self) -> bool:
        """Whether it serves all that it is to lead, but for shards that are loading."""
        return self.has_lease and self.is_registered and not self.awaited

    def reasons(self) -> list[str]:
        """Why it is not well; empty if it is."""
        found = []
        if self.away_s:
            found.append(f"the database has not responded for {self.away_s:.0f} s: {self.trouble}")
        if not self.has_lease:
            why = f": {self.trouble}" if self.trouble and not found else ""
            found.append(f"this node has no lease, and leads nothing{why}")
        elif self.trouble and not self.is_registered:
            found.append(f"this node cannot register: {self.trouble}")
        return found


STARTING: Final = NodeStatus(trouble="it is starting")
"""A node that has not registered yet."""


class NodeNews:
    """Logs which other nodes of the cluster come, are drained, and go."""

    def __init__(self, node_id: int) -> None:
        """`node_id` is that of this node, of which nothing is logged."""
        self._node_id = node_id
        self._known: dict[int, NodeRegistered] | None = None

    def look(self, nodes: Mapping[int, NodeRegistered]) -> None:
        """Log what has changed since the last look. `nodes` are those of the cluster, by id."""
        known = self._known
        others = {number: node for number, node in nodes.items() if number != self._node_id}
        self._known = others
        if known is None:
            if others:
                logger.info("other nodes are in the cluster", extra=fields(others=sorted(others)))
            return
        for number in sorted(known.keys() - others.keys()):
            logger.info("a node has left the cluster", extra=fields(other=number))
        for number, node in sorted(others.items()):
            before = known.get(number)
            if before is None or before.session != node.session:
                logger.info("a node has joined the cluster", extra=_told(node))
            elif node.is_draining and not before.is_draining:
                logger.info("a node is drained", extra=fields(other=number))


def _told(node: NodeRegistered) -> dict[str, dict[str, object]]:
    addresses = [str(Address(each.host, each.port)) for each in node.endpoints]
    return fields(other=node.id, addresses=addresses)
