"""The state of one membership, and the steps that its rules share.

Both protocols have `MemberState`; the classic one adds `MembershipState`.
`Membership` adds the events that change it. The rules are functions of the state, one module per
subject: `joining`, `heartbeats`, `ending` (how partitions end early) and `leaving`. No rule reads a
clock or sends a request: it appends to `actions`.
"""

from enum import Enum
from typing import Final, Protocol

from kohort.client.config import GroupConfig
from kohort.client.membership.events import (
    Abandon,
    Action,
    End,
    EndPartitions,
    JoinGroupResponseMember,
    LogEvent,
    Request,
    Send,
)
from kohort.client.membership.session import MembershipSession, Tries, Uniform, backoff_ms
from kohort.types import TopicPartition

FAILURES_PER_ABORT: Final = 3
"""Number of failed requests that one failure of the application equals in the pause."""
JOIN_RESERVE_MS: Final = 500
"""Time reserved for the JoinGroup to arrive after the longest possible drain."""


class Phase(Enum):
    """Phase of the member; owned and draining partitions are separate state."""

    OUT = "out"
    """It waits for the application, for a drain, or for the end of a pause."""
    JOINING = "joining"
    ASSIGNING = "assigning"
    """It is the leader, and the application computes the assignment."""
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"


class Subscriber(Protocol):
    """Encodes the member's subscription for JoinGroup."""

    def protocols(
        self, owned: tuple[TopicPartition, ...], generation: int
    ) -> tuple[tuple[str, bytes], ...]:
        """Pairs (assignor's name, subscription) for a join with `owned` of `generation`; pure."""
        ...


class MemberState:
    """State and steps that memberships of both protocols share. Times are in ms."""

    def __init__(self, config: GroupConfig, *, request_timeout_ms: int, uniform: Uniform) -> None:
        self.config = config
        self.request_timeout_ms = request_timeout_ms
        self.member_id = ""
        self.running = False
        """Whether the application has a generation, perhaps one without partitions."""
        self.draining = False
        self.active = False
        """Whether the application takes part: False before `join` and after `abort`."""
        self.leaving_because: str | None = None
        self.leave_until = 0
        self.tries = Tries()
        self.has_joined = False
        """Whether the member has had a generation."""
        self.aborts = Tries()
        """Consecutive generations in which the application failed."""
        self.started_at = 0
        self.paused_until = 0
        """Until this time a member whose application failed gets no generation."""
        self.actions: list[Action] = []
        """Actions of the event that is being handled."""
        self._numbers = 0
        self._uniform = uniform

    def send(self, request: Request, timeout_ms: int) -> int:
        """Append a `Send` of the request; returns its number."""
        self._numbers += 1
        self.actions.append(Send(self._numbers, request, timeout_ms))
        return self._numbers

    def end(
        self, end: End, partitions: tuple[TopicPartition, ...] | None, drain_ms: int, cause: str
    ) -> None:
        """Drain `partitions` (None: all), for `drain_ms` at most."""
        self.draining = True
        self.actions.append(
            EndPartitions(end=end, partitions=partitions, drain_ms=drain_ms, cause=cause)
        )

    def log_event(self, event: str, detail: str) -> None:
        """Append a `LogEvent`, for the operator's log."""
        self.actions.append(LogEvent(event=event, detail=detail))

    def backoff(self, failures: int) -> int:
        """Pause in ms after so many failures."""
        return backoff_ms(failures, self.config.join_group_backoff_ms, self._uniform)

    def application_failed(self, now: int) -> None:
        """Count a failure of the application: the pause before its next generation grows."""
        if now - self.started_at >= self.config.session_timeout_ms:
            self.aborts.succeeded()
        self.aborts.failed(now)
        self.paused_until = now + self.backoff(self.aborts.failures + FAILURES_PER_ABORT - 1)

    def log_pause(self, now: int) -> None:
        """Report that the application's failures delay its next generation."""
        self.log_event(
            "retry",
            f"the application failed {self.aborts.failures} times; the member rejoins "
            f"in {self.paused_until - now} ms",
        )

    def unavailable(self, error: str, lasting: int) -> str:
        """The message about a coordinator that could not be reached for `lasting` ms."""
        return (
            f"group {self.config.group_id} could not be joined: {self.tries.failures} "
            f"tries in {lasting} ms, "
            f"the last one: {error}. Check that the brokers run and are reachable under the "
            "addresses that they advertise; retry_timeout_ms limits the tries"
        )


class MembershipState(MemberState):
    """The state of one membership in the classic protocol."""

    def __init__(
        self,
        config: GroupConfig,
        subscriber: Subscriber,
        *,
        cooperative: bool,
        request_timeout_ms: int,
        uniform: Uniform,
    ) -> None:
        super().__init__(config, request_timeout_ms=request_timeout_ms, uniform=uniform)
        self.subscriber = subscriber
        self.cooperative = cooperative
        self.phase = Phase.OUT
        self.generation = -1
        """Generation of heartbeats and commits; -1 while there is none."""
        self.current_assignment: tuple[TopicPartition, ...] = ()
        """Partitions of the running generation, without draining ones."""
        self.session = MembershipSession(
            interval_ms=config.heartbeat_interval_ms,
            timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
        )
        self.sync_sent = 0
        self.protocol = ""
        """The assignor that the group chose."""
        self.leads = False
        self.members: tuple[JoinGroupResponseMember, ...] = ()
        """All members of the group, if this member is the leader."""
        self.rejoin_because: str | None = None
        """Reason to join as soon as all drains are complete; None: no reason."""
        self.outdated_because: str | None = None
        """Reason to rejoin as soon as the current rebalance is complete; None: no reason."""
        self.awaited_request: int | None = None
        """Number of the JoinGroup, SyncGroup or LeaveGroup in flight."""
        self.retry_at: int | None = None

    def __repr__(self) -> str:
        draining = " draining" if self.draining else ""
        return (
            f"<Membership {self.config.group_id} {self.phase.value}{draining} "
            f"gen={self.generation} "
            f"member={self.member_id!r} assigned={len(self.current_assignment)}>"
        )

    @property
    def has_generation(self) -> bool:
        """Whether the application has a generation or partitions to lose."""
        return self.running or bool(self.current_assignment)

    @property
    def expires_at(self) -> int | None:
        """Time at which all partitions are lost unless a response arrives; None: never."""
        return self.session.alive_until if self.has_generation or self.draining else None

    def drain_ms(self, now: int) -> int:
        """Time for which revoked partitions may drain, in ms.

        At most the configured time, and the time for which the group certainly waits for this
        member. After failed heartbeats the group may have been waiting for a while.
        """
        reserve = min(self.config.heartbeat_interval_ms, JOIN_RESERVE_MS)
        return max(min(self.config.drain_ms, self.session.rejoin_by - reserve - now), 0)

    def request_rejoin(self, reason: str) -> None:
        """Join as soon as all drains are complete and no request is in flight."""
        if self.active and self.leaving_because is None:
            self.rejoin_because, self.retry_at = reason, None

    def abandon(self) -> None:
        """Abandon the JoinGroup, SyncGroup or LeaveGroup in flight, if any."""
        if self.awaited_request is not None:
            self.actions.append(Abandon(self.awaited_request))
            self.awaited_request = None

    def end_all(self, end: End, drain_ms: int, cause: str) -> None:
        """End the generation with all its partitions."""
        self.current_assignment, self.running = (), False
        self.end(end, None, drain_ms, cause)
