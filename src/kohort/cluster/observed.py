"""What is seen of nodes beside the log: their leases and locks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kohort.cluster.records import NodeRegistered
from kohort.types import Timestamp


@dataclass(frozen=True, slots=True)
class Liveness:
    """What the storage knows of a node, by its own clock."""

    session: int
    lease_until: Timestamp
    holds_lock: bool = True
    """Whether the connection by which it shows that its process runs is there."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All nodes at one moment of the storage's clock."""

    now: Timestamp
    nodes: Mapping[int, Liveness]
    trusts_locks: bool = True
    """False soon after a restart of the storage, which takes all locks."""

    def is_gone(self, node: int, session: int) -> bool:
        """Whether the process that registered with this session serves no more.

        One that has a later session is about to register again: it is gone when its lease is over.
        """
        liveness = self.nodes.get(node)
        if liveness is None or liveness.lease_until <= self.now:
            return True
        return self.trusts_locks and not liveness.holds_lock and liveness.session == session

    def with_newcomers(self, nodes: Iterable[NodeRegistered]) -> "Observed":
        """The same, with nodes there that have registered since this was seen."""
        alive = {each.id: Liveness(each.session, Timestamp(self.now + 1)) for each in nodes}
        return replace(self, nodes={**self.nodes, **alive})
