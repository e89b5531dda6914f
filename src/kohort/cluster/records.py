"""What is logged of nodes and leaders, each record one thing as it is from now on.

Kafka's counterparts are RegisterBrokerRecord, FenceBrokerRecord and PartitionChangeRecord.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.types import Timestamp

NO_LEADER: Final = -1
"""The node that leads a partition without a leader, as in Kafka's Metadata."""


class Place(NamedTuple):
    """A partition of a topic, which may be deleted and made again under the same name."""

    topic_id: UUID
    partition: int


class Leader(NamedTuple):
    """Who leads a partition; the epoch grows with every change of it."""

    node: int = NO_LEADER
    epoch: int = -1


class Endpoint(NamedTuple):
    """Where clients reach a listener of a node."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """A node as it is from now on: it serves what it leads, and may get more."""

    id: int
    session: int
    """Grows whenever a process takes the id, or is fenced: the fence of its appends."""
    endpoints: tuple[Endpoint, ...]
    registered_at: Timestamp
    rack: str | None = None
    is_draining: bool = False
    """Whether what it leads is to go to other nodes."""
    machine: str | None = None
    """What nodes have in common that reach each other by 127.0.0.1; None: not known."""
    can_connect: bool = True
    """Whether its settings say how it connects to other nodes; else it has to be the only one."""


@dataclass(frozen=True, slots=True)
class NodeFenced:
    """A node that is gone. Its appends are refused since before this record was appended."""

    id: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """A partition has a leader from now on, or none (`NO_LEADER`).

    `Leader()`: the partition is gone with its topic.
    """

    place: Place
    leader: Leader


@dataclass(frozen=True, slots=True)
class ReassignmentPlanned:
    """A partition is to move: its leader hands it over once the next one has read it.

    `to` None: it stays.
    """

    place: Place
    to: int | None
    is_ready: bool = False
    """Whether that node has read it. If it ends and comes back, it reads all of it again, later."""


NodeRecord: TypeAlias = NodeRegistered | NodeFenced | LeaderChanged | ReassignmentPlanned
