"""What one member knows of its membership, and the few things that each of its rules does.

`Membership` is this state with the events that change it. The rules are functions of the state, by
what they are about: joining (`membership_joining`), heartbeats (`membership_heartbeats`), how what
is held ends (`membership_ending`), and leaving (`membership_leaving`). None of them reads a clock
or sends anything: what is to be done is put into `actions`.
"""

from enum import Enum
from random import Random
from typing import Final, Protocol

from kohort.client.group_config import GroupConfig
from kohort.client.membership.events import (
    Abandon,
    Action,
    End,
    EndPartitions,
    JoinGroupResponseMember,
    Request,
    Send,
    Tell,
)
from kohort.client.membership.session import MemberSession, Tries, backoff_ms
from kohort.types import TopicPartition

JOIN_WITHIN_MS: Final = 500
"""Time that is left for the JoinGroup to arrive when what is revoked was drained for as long as it
may be.
"""


class Phase(Enum):
    """Where the member stands. What it still holds, and drains, is beside that."""

    OUT = "out"
    """It waits: for the application, for what drains, or for a pause to end."""
    JOINING = "joining"
    ASSIGNING = "assigning"
    """It leads, and the application computes the assignment."""
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"


class Subscriber(Protocol):
    """Writes what the member says of itself."""

    def protocols(
        self, owned: tuple[TopicPartition, ...], generation: int
    ) -> tuple[tuple[str, bytes], ...]:
        """(assignor's name, subscription) for a join with `owned`, got in `generation`; pure."""
        ...


class MembershipState:
    """Of one member. Times are in ms."""

    def __init__(
        self,
        config: GroupConfig,
        subscriber: Subscriber,
        *,
        cooperative: bool,
        request_timeout_ms: int,
        random: Random,
    ) -> None:
        self.config = config
        self.subscriber = subscriber
        self.cooperative = cooperative
        self.request_timeout_ms = request_timeout_ms
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        """For heartbeats and commits; -1 while there is none."""
        self.held: tuple[TopicPartition, ...] = ()
        """What the application may work on, without what drains."""
        self.running = False
        """The application has a generation, be it one without partitions."""
        self.draining = False
        self.session = MemberSession(
            interval_ms=config.heartbeat_interval_ms,
            timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
        )
        self.sync_sent = 0
        self.protocol = ""
        """The assignor that the group chose."""
        self.leads = False
        self.members: tuple[JoinGroupResponseMember, ...] = ()
        """All of the group, if this member leads it."""
        self.wanted = False
        """Whether the application wants to be a member."""
        self.rejoin_because: str | None = None
        """Why to join as soon as nothing drains; None: there is no need."""
        self.outdated_because: str | None = None
        """Why to join again as soon as the generation that is being made is there."""
        self.leaving_because: str | None = None
        self.leave_until = 0
        self.awaited: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup in flight."""
        self.tries = Tries()
        self.retry_at: int | None = None
        self.actions: list[Action] = []
        """What the event that is being dealt with causes."""
        self._numbers = 0
        self._random = random

    def __repr__(self) -> str:
        draining = " draining" if self.draining else ""
        return (
            f"<Membership {self.config.group_id} {self.phase.value}{draining} "
            f"gen={self.generation} "
            f"member={self.member_id!r} held={len(self.held)}>"
        )

    @property
    def has_generation(self) -> bool:
        """Whether the application has something that a loss would take from it."""
        return self.running or bool(self.held)

    @property
    def expires_at(self) -> int | None:
        """When what is held can be no longer, unless the coordinator is heard of."""
        return self.session.alive_until if self.has_generation or self.draining else None

    def drain_ms(self, now: int) -> int:
        """How long what is revoked may go on: as configured, but not longer than the group surely
        waits for this member. Where heartbeats failed, it has been waiting for a while.
        """
        reserve = min(self.config.heartbeat_interval_ms, JOIN_WITHIN_MS)
        return max(min(self.config.drain_ms, self.session.rejoin_by - reserve - now), 0)

    def want_join(self, reason: str) -> None:
        """Join as soon as nothing drains, and no request is in flight."""
        if self.wanted and self.leaving_because is None:
            self.rejoin_because, self.retry_at = reason, None

    def send(self, request: Request, timeout_ms: int) -> int:
        """Send it; its number."""
        self._numbers += 1
        self.actions.append(Send(self._numbers, request, timeout_ms))
        return self._numbers

    def abandon(self) -> None:
        """Wait no longer for what is awaited."""
        if self.awaited is not None:
            self.actions.append(Abandon(self.awaited))
            self.awaited = None

    def end(
        self, end: End, partitions: tuple[TopicPartition, ...] | None, drain_ms: int, cause: str
    ) -> None:
        """Have partitions (None: all) drained, for `drain_ms` at most."""
        self.draining = True
        self.actions.append(
            EndPartitions(end=end, partitions=partitions, drain_ms=drain_ms, cause=cause)
        )

    def end_all(self, end: End, drain_ms: int, cause: str) -> None:
        """End the generation."""
        self.held, self.running = (), False
        self.end(end, None, drain_ms, cause)

    def tell(self, what: str, detail: str) -> None:
        """Tell the operator."""
        self.actions.append(Tell(what=what, detail=detail))

    def backoff(self, failures: int) -> int:
        """How long to wait after so many failures."""
        return backoff_ms(failures, self.config.join_group_backoff_ms, self._random)
