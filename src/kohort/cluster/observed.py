"""Leases and locks of nodes, which the storage has beside the log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kohort.cluster.records import NodeRegistered
from kohort.types import Timestamp


@dataclass(frozen=True, slots=True)
class Liveness:
    """Session, lease and lock of a node; times are of the storage's clock."""

    session: int
    lease_until: Timestamp
    holds_lock: bool = True
    """Whether its process still holds its lock in the storage."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Liveness of all nodes at one moment of the storage's clock."""

    now: Timestamp
    nodes: Mapping[int, Liveness]
    trusts_locks: bool = True
    """False soon after a restart of the storage, which drops all locks."""

    def is_gone(self, node: int, session: int) -> bool:
        """Whether the process that registered with this session is gone.

        A node with a later session is about to register again: only the end of its lease counts.
        """
        liveness = self.nodes.get(node)
        if liveness is None or liveness.lease_until <= self.now:
            return True
        return self.trusts_locks and not liveness.holds_lock and liveness.session == session

    def with_newcomers(self, nodes: Iterable[NodeRegistered]) -> "Observed":
        """A copy in which nodes that have registered since are alive."""
        alive = {node.id: Liveness(node.session, Timestamp(self.now + 1)) for node in nodes}
        return replace(self, nodes={**self.nodes, **alive})
