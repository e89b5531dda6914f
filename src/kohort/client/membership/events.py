"""Requests, responses and actions of the membership, as data free of wire versions.

A request is sent by `Send`, whose number identifies its response. The response to a number that is
no longer in flight is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from kohort.client.group_errors import GroupError
from kohort.errors import ErrorCode
from kohort.types import TopicIdPartition, TopicPartition

NONE = ErrorCode.none


class End(Enum):
    """Why a generation, or the ownership of a partition, ended."""

    REVOKED = "revoked"
    """The group rebalances: work in flight may finish and commit within the drain timeout."""
    LOST = "lost"
    """Fenced, expired or deleted: others may own it already, and nothing is committed any more."""
    CLOSED = "closed"
    """This member ends it; its partitions drain as if revoked."""


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
    """All partitions that the member owns, with draining and assigned ones."""


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
    """Send `request` to the coordinator, which is looked up first if it is unknown.

    `responded` gets the response; if none arrives within `timeout_ms`, `failed` is called.
    """

    number: int
    request: Request
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Cancel the request, and close its connection if the request is parked there."""

    number: int


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """Request the coordinator with FindCoordinator before the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """The member is the leader: assign the partitions to `members`, and call `assigned`."""

    generation: int
    protocol: str
    members: tuple[JoinGroupResponseMember, ...]


@dataclass(frozen=True, slots=True)
class ResolveTopics:
    """Request the names of these topic ids, and call `resolved`; replaces an earlier action."""

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
    """Partitions that only the generation before had; `EndPartitions` follows."""
    user_data: bytes | None = None
    """User data that the leader's assignor sent to this member's."""
    members: tuple[JoinGroupResponseMember, ...] = ()
    """All members of the group, if this member leads it."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Ids of the topics in the assignment, if the coordinator assigns by id."""

    @property
    def kept(self) -> tuple[TopicPartition, ...]:
        """Partitions whose tasks continue without interruption (cooperative)."""
        added = set(self.added)
        return tuple(tp for tp in self.assignment if tp not in added)


@dataclass(frozen=True, slots=True)
class Start:
    """Start the generation in the application; the one before may not have ended yet."""

    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPartitions:
    """Drain `partitions` (None: the whole generation), join their tasks, and then call `drained`.

    During the drain another `EndPartitions` may follow: it covers all draining partitions, with a
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
class LogEvent:
    """An event for the operator's log."""

    event: str
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
    | LogEvent
)
