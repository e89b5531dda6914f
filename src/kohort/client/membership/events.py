"""What the membership says and hears: requests to send, answers, and what the application is to be
told.

All of it is data, free of wire versions. A request goes out as `Send`, with a number by which its
answer comes back; an answer to a number that is no longer awaited is ignored.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kohort.client.group_errors import GroupError
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

NONE = ErrorCode.none


class End(Enum):
    """How a generation, or the holding of a partition, ended."""

    REVOKED = "revoked"
    """The group rebalances: what is in flight may finish, and commit, within the drain timeout."""
    LOST = "lost"
    """Fenced, expired or deleted: others may own it already. Nothing is committed any more."""
    CLOSED = "closed"
    """This member ends it: as revoked, but for who wants it."""


# --- requests ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    """(assignor's name, subscription), in the order of preference."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    generation: int
    member_id: str
    protocol: str
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment), from the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    member_id: str
    reason: str


Request: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


# --- answers ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """A member as its leader sees it."""

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
    """To a Heartbeat, or to a LeaveGroup: the member's own error, else the one at the top."""

    error: ErrorCode = NONE


CoordinatorResponse: TypeAlias = JoinGroupResponse | SyncGroupResponse | PlainResponse


# --- actions ---


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request` to the coordinator, looking that up first where it is not known. Bring the
    answer to `responded`, or to `failed` when there is none within `timeout_ms`.
    """

    number: int
    request: Request
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody waits for the answer any more: end the request, and its connection if it is parked
    there.
    """

    number: int


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """Look the coordinator up again before the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """This member leads: divide the partitions among `members`, and bring the result to `assigned`."""

    generation: int
    protocol: str
    members: tuple[JoinGroupResponseMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A generation as it begins for this member."""

    generation: int
    member_id: str
    protocol: str
    """Name of the assignor that the group chose."""
    is_leader: bool
    assignment: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    """Cooperative: what the generation before had and this one has not. An `EndPartitions` for them
    follows.
    """
    user_data: bytes | None = None
    """What the leader's assignor says to this member's."""
    members: tuple[JoinGroupResponseMember, ...] = ()
    """All of the group, if this member leads it."""

    @property
    def kept(self) -> tuple[TopicPartition, ...]:
        """Cooperative: what runs on without interruption."""
        added = set(self.added)
        return tuple(each for each in self.assignment if each not in added)


@dataclass(frozen=True, slots=True)
class Start:
    """Hand the generation to the application; it follows the one before, if that has not ended yet."""

    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPartitions:
    """Drain and join what works on `partitions` (None: the whole generation), and then call
    `drained`.

    While something drains, another one of these may follow: it covers all that is left, with a
    harder end.
    """

    end: End
    partitions: tuple[TopicPartition, ...] | None
    drain_ms: int
    """How long work in flight may go on; 0: cancel it at once."""
    cause: str


@dataclass(frozen=True, slots=True)
class Raise:
    """The membership is over: raise this to the application."""

    error: GroupError


@dataclass(frozen=True, slots=True)
class Left:
    """The membership is over because it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Something happened that an operator may want to read."""

    what: str
    """`join`, `rejoin`, `retry`, `heartbeat failed`, `rebalance`, `lost`, `waiting`."""
    detail: str


Action: TypeAlias = (
    Send | Abandon | ForgetCoordinator | Assign | Start | EndPartitions | Raise | Left | Tell
)
