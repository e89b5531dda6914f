"""Requests, responses and actions of the membership, as data free of wire versions.

A request goes out as `Send`, with a number by which its response comes back. A response to a number
that is no longer awaited is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kohort.client.group_errors import GroupError
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

NONE = ErrorCode.none


class End(Enum):
    """How a generation, or the ownership of a partition, ended."""

    REVOKED = "revoked"
    """The group rebalances: work in flight may finish and commit within the drain timeout."""
    LOST = "lost"
    """Fenced, expired or deleted: others may own it already, and nothing is committed any more."""
    CLOSED = "closed"
    """This member ends it; drained as if revoked."""


class TopicIdPartition(NamedTuple):
    """A partition as the consumer protocol names it."""

    topic_id: UUID
    partition: int


# --- requests ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    """Pairs (assignor's name, subscription), in the order of preference."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    generation: int
    member_id: str
    protocol: str
    assignments: tuple[tuple[str, bytes], ...] = ()
    """Pairs (member id, assignment), from the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """The only request of the consumer protocol; None: unchanged since the last one."""

    member_id: str
    epoch: int
    """0: join. -1: leave. -2: a static member leaves for a while."""
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    """-1: unchanged."""
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    """All partitions that the member owns, draining and coming ones included."""


Request: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerGroupHeartbeat


# --- responses ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """A member in the JoinGroup response to the leader."""

    member_id: str
    instance_id: str | None = None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    error: ErrorCode = NONE
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    error: ErrorCode = NONE
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainResponse:
    """The response to a Heartbeat or LeaveGroup: the member's error, else the top-level one."""

    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    error: ErrorCode = NONE
    message: str = ""
    """The coordinator's explanation of the error."""
    epoch: int = 0
    interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None
    """None: as in the last response that had one."""


CoordinatorResponse: TypeAlias = (
    JoinGroupResponse | SyncGroupResponse | PlainResponse | ConsumerGroupHeartbeatResponse
)


# --- actions ---


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request` to the coordinator, after looking the coordinator up if it is unknown.

    The response goes to `responded`; if none arrives within `timeout_ms`, `failed` is called.
    """

    number: int
    request: Request
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Await the response no longer: end the request, and its connection if it is parked there."""

    number: int


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """Look the coordinator up again before the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """This member leads: divide the partitions among `members`, and call `assigned`."""

    generation: int
    protocol: str
    members: tuple[JoinGroupResponseMember, ...]


@dataclass(frozen=True, slots=True)
class ResolveTopics:
    """Look up the names of these topic ids, and call `resolved`; replaces an earlier one."""

    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A generation as it begins for this member."""

    generation: int
    """Its id; in the consumer protocol the member epoch at which it begins."""
    member_id: str
    protocol: str
    """Name of the assignor that the group chose."""
    is_leader: bool
    assignment: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    """Partitions of the generation before that this one lacks; `EndPartitions` follows."""
    user_data: bytes | None = None
    """User data of the leader's assignor for this member's."""
    members: tuple[JoinGroupResponseMember, ...] = ()
    """All members of the group, if this member leads it."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Ids of the topics in the assignment, if the coordinator assigns by id."""

    @property
    def kept(self) -> tuple[TopicPartition, ...]:
        """Partitions that run on without interruption (cooperative)."""
        added = set(self.added)
        return tuple(each for each in self.assignment if each not in added)


@dataclass(frozen=True, slots=True)
class Start:
    """Hand the generation to the application; it follows one that may not have ended yet."""

    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPartitions:
    """Drain `partitions` (None: the whole generation), join their tasks, and then call `drained`.

    While something drains, another `EndPartitions` may follow: it covers all that is left, with a
    harder end.
    """

    end: End
    partitions: tuple[TopicPartition, ...] | None
    drain_ms: int
    """How long work in flight may continue; 0: cancel it at once."""
    cause: str


@dataclass(frozen=True, slots=True)
class Raise:
    """The membership is over: raise this error to the application."""

    error: GroupError


@dataclass(frozen=True, slots=True)
class Left:
    """The membership is over because the application left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """An event for the operator's log."""

    what: str
    """One of `join`, `rejoin`, `retry`, `heartbeat failed`, `rebalance`, `lost`, `waiting`."""
    detail: str


Action: TypeAlias = (
    Send
    | Abandon
    | ForgetCoordinator
    | Assign
    | ResolveTopics
    | Start
    | EndPartitions
    | Raise
    | Left
    | Tell
)
