"""What a node of a cluster is and has at one moment, for those who watch it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.cluster import Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node that shares a storage with others."""

    nodes: int = 0
    """Nodes of the cluster that are there, as far as this one knows."""
    led: Mapping[Purpose, int] = field(default_factory=dict)
    """Partitions that it leads."""
    awaited: int = 0
    """Partitions that it is to lead, and has not taken yet."""
    taken: int = 0
    """Times that it began to lead a partition."""
    given_up: int = 0
    """Times that it gave one up."""
    has_lease: bool = False
    is_registered: bool = False
    """Whether others know its present session."""
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
        return found


STARTING: Final = NodeStatus(trouble="it is starting")
"""A node that has not registered yet."""
