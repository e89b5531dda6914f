"""Records of nodes and leaders. Each has the whole new state of its subject.

Kafka's counterparts are RegisterBrokerRecord, FenceBrokerRecord and PartitionChangeRecord.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kohort.types import Timestamp, TopicIdPartition

NO_LEADER: Final = -1
"""Leader id of a partition without a leader, as in Kafka's Metadata."""


class Leader(NamedTuple):
    """Leader and leader epoch of a partition; the epoch grows with each change."""

    node: int = NO_LEADER
    epoch: int = -1


class Endpoint(NamedTuple):
    """Advertised address of a node's listener."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """Registration of a node, which may get partitions from now on."""

    id: int
    session: int
    """Number of the node's session. A takeover increments it, and older appends are rejected."""
    endpoints: tuple[Endpoint, ...]
    registered_at: Timestamp
    rack: str | None = None
    is_draining: bool = False
    """Whether its partitions move to other nodes."""
    machine: str | None = None
    """Identity of the network of its 127.0.0.1; None: unknown."""
    can_connect: bool = True
    """Whether its settings let it connect to other nodes; if not, it must be the only one."""


@dataclass(frozen=True, slots=True)
class NodeFenced:
    """A node is gone. Its appends have been rejected since before this record was appended."""

    id: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """New leader of a partition, or none (`NO_LEADER`).

    `Leader()`: the topic was deleted.
    """

    partition: TopicIdPartition
    leader: Leader


@dataclass(frozen=True, slots=True)
class ReassignmentPlanned:
    """Planned move: the leader hands the partition over once node `to` has read it.

    `to` None: the move is cancelled.
    """

    partition: TopicIdPartition
    to: int | None
    is_ready: bool = False
    """Whether that node has read it. After a restart, it reads all of it again."""


NodeRecord: TypeAlias = NodeRegistered | NodeFenced | LeaderChanged | ReassignmentPlanned
