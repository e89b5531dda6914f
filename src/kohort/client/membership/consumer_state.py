"""The state of a membership in the consumer protocol, and the steps that its rules share.

`ConsumerMembership` adds the events that change this state. The rules are in `reconciling` (from an
assignment to generations) and `consumer_heartbeats` (requests and responses).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol
from uuid import UUID

from kohort.client.config import GroupConfig
from kohort.client.group_errors import GroupError
from kohort.client.membership.events import Abandon, End, Grant, Left, Raise, Start
from kohort.client.membership.session import Uniform
from kohort.client.membership.state import JOIN_RESERVE_MS, MemberState
from kohort.types import TopicIdPartition, TopicPartition

MIN_SESSION_INTERVALS: Final = 3
"""Minimum length of a session in heartbeat intervals; the coordinator's is longer."""
NOT_A_MEMBER: Final = 0
"""The epoch of a member that joins."""


class ConsumerPhase(Enum):
    """Phase of the member, by Kafka's name; draining is separate state."""

    UNSUBSCRIBED = "unsubscribed"
    """Not a member: it has not joined yet, or was fenced and its tasks are ending."""
    JOINING = "joining"
    RECONCILING = "reconciling"
    """The coordinator's assignment differs from that of the application."""
    ACKNOWLEDGING = "acknowledging"
    """The application has the assignment; no heartbeat has acknowledged it yet."""
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"


class Subscribed(Protocol):
    """The current topics of the member's subscription."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Fields of a heartbeat that are sent only when they change."""

    topics: tuple[str, ...]
    pattern: str | None
    assignor: str | None
    rebalance_timeout_ms: int


class ConsumerSession:
    """The times at which the coordinator may remove the member, in ms.

    It removes a member without a heartbeat for the session timeout, and one that does not
    acknowledge a revocation within the rebalance timeout. The latter starts at the first heartbeat
    whose response may have had the revocation: that response may have been lost.
    """

    def __init__(self, *, timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self.failures = 0
        """Failed heartbeats since the last response."""
        self.revokes = False
        """Whether a revocation is not acknowledged yet."""
        self._timeout_ms = timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._ends_at: int | None = None
        self._sent = 0
        self._first_sent: int | None = None
        """Time of the first heartbeat since the last response; None: there is none."""
        self._revocation_since = 0

    @property
    def alive_until(self) -> int | None:
        """From this time on the coordinator may remove the member; None: there is no session."""
        since = self._revocation_since if self.revokes else self._first_sent
        if self._ends_at is None or since is None:
            return self._ends_at
        return min(self._ends_at, since + self._rebalance_timeout_ms)

    @property
    def reconcile_by(self) -> int:
        """Time until which the coordinator waits for the acknowledgement of a revocation."""
        return self._revocation_since + self._rebalance_timeout_ms

    def sent(self, now: int) -> None:
        """A heartbeat was sent."""
        self._sent = now
        if self._first_sent is None:
            self._first_sent = now

    def responded(self, interval_ms: int, *, acknowledged: bool) -> None:
        """The coordinator accepted the last heartbeat, and expects the next one in `interval_ms`.

        `acknowledged`: that heartbeat acknowledged all revocations.
        """
        self.revokes = self.revokes and not acknowledged
        if self._first_sent is not None and not self.revokes:
            self._revocation_since = self._first_sent
        self._first_sent = None
        self._ends_at = self._sent + max(self._timeout_ms, MIN_SESSION_INTERVALS * interval_ms)
        self.failures = 0

    def end(self) -> None:
        """End the session."""
        self._ends_at = self._first_sent = None
        self.revokes = False


class ConsumerState(MemberState):
    """The state of one membership in the consumer protocol. Times are in ms."""

    def __init__(
        self,
        config: GroupConfig,
        subscribed: Subscribed,
        *,
        member_id: str,
        request_timeout_ms: int,
        uniform: Uniform,
    ) -> None:
        super().__init__(config, request_timeout_ms=request_timeout_ms, uniform=uniform)
        self.member_id = member_id
        self.phase = ConsumerPhase.UNSUBSCRIBED
        self.epoch = NOT_A_MEMBER
        """Member epoch of heartbeats and commits; never negative."""
        self.target: frozenset[TopicIdPartition] = frozenset()
        """The coordinator's last assignment."""
        self.names: dict[UUID, str] = {}
        self.resolving: frozenset[UUID] = frozenset()
        """Topic ids whose names are being requested."""
        self.resolve_at: int | None = None
        """When the names of unresolved ids are requested again; None: not at all, or in flight."""
        self.current_assignment: dict[TopicIdPartition, TopicPartition] = {}
        """Partitions of the running generation, without draining ones."""
        self.revoking: dict[TopicIdPartition, TopicPartition] = {}
        """Revoked partitions that drain: the member owns them until it acknowledges."""
        self.session = ConsumerSession(
            timeout_ms=config.session_timeout_ms, rebalance_timeout_ms=config.rebalance_timeout_ms
        )
        self.interval_ms = config.heartbeat_interval_ms
        self.due_at: int | None = None
        """When the next request may be sent; None while one is in flight."""
        self.in_flight: int | None = None
        self.acknowledges = False
        """Whether the heartbeat in flight acknowledges the current assignment."""
        self.accepted_subscription: Subscription | None = None
        """Subscription that the coordinator has; None: uncertain, so the next heartbeat is a full
        one."""
        self.sent_subscription: Subscription | None = None
        """The subscription in the heartbeat in flight."""
        self.may_be_member = False
        """Whether the coordinator may have this member."""
        self.releases_first = False
        """Whether the member has to leave before it joins, as the group may have it.

        A member that joins with an id that the group has keeps its assignment, and may keep its
        epoch. Commits that are still on their way from before would be accepted, after the member
        has read the offsets at which it begins. A static member would get UNRELEASED_INSTANCE_ID.
        """
        self._subscribed = subscribed

    def __repr__(self) -> str:
        draining = " draining" if self.draining else ""
        return (
            f"<ConsumerMembership {self.config.group_id} {self.phase.value}{draining} "
            f"epoch={self.epoch} member={self.member_id!r} assigned={len(self.current_assignment)}>"
        )

    @property
    def generation(self) -> int:
        """The member epoch of commits; -1 while there is none."""
        return self.epoch if self.epoch > NOT_A_MEMBER else -1

    @property
    def has_generation(self) -> bool:
        """Whether the application has a generation or partitions to lose."""
        return self.running or bool(self.current_assignment)

    @property
    def subscription(self) -> Subscription:
        """The subscription that the coordinator should have."""
        config = self.config
        return Subscription(
            topics=tuple(sorted(set(self._subscribed.topics))),
            pattern=config.pattern,
            assignor=config.remote_assignor,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
        )

    @property
    def owned(self) -> frozenset[TopicIdPartition]:
        """All partitions that the coordinator must not assign to other members yet.

        They include assigned ones that the application does not have yet: it may get them before
        the response that revokes them.
        """
        return self.target | self.current_assignment.keys() | self.revoking.keys()

    @property
    def unresolved(self) -> frozenset[UUID]:
        """Topic ids of the assignment without a name so far."""
        return frozenset(partition.topic_id for partition in self.target) - self.names.keys()

    def drain_ms(self, now: int) -> int:
        """Time for which revoked partitions may drain, in ms.

        At most the configured time, and the time for which the coordinator certainly waits.
        """
        return max(min(self.config.drain_ms, self.session.reconcile_by - JOIN_RESERVE_MS - now), 0)

    def hasten(self, now: int) -> None:
        """Send the next heartbeat at once; after a failure, at the end of the pause."""
        if self.in_flight is None and not self.session.failures:
            self.due_at = now

    def start(self, assignment: dict[TopicIdPartition, TopicPartition], now: int) -> None:
        """Start a generation with this assignment."""
        names = tuple(sorted(assignment.values()))
        added = assignment.keys() - self.current_assignment.keys()
        revoked = self.current_assignment.keys() - assignment.keys()
        grant = Grant(
            generation=self.epoch,
            member_id=self.member_id,
            protocol=self.config.remote_assignor or "",
            is_leader=False,
            assignment=names,
            added=tuple(sorted(assignment[partition] for partition in added)),
            revoked=tuple(sorted(self.current_assignment[partition] for partition in revoked)),
            topic_ids={name.topic: partition.topic_id for partition, name in assignment.items()},
        )
        self.current_assignment, self.running, self.started_at, self.has_joined = (
            assignment,
            True,
            now,
            True,
        )
        self.actions.append(Start(grant))

    def end_all(self, end: End, drain_ms: int, cause: str) -> None:
        """End the generation with all its partitions."""
        self.revoking = self.revoking | self.current_assignment if end is not End.LOST else {}
        self.current_assignment, self.running = {}, False
        self.end(end, None, drain_ms, cause)

    def abandon(self) -> None:
        """Abandon the request in flight, if any."""
        if self.in_flight is not None:
            self.actions.append(Abandon(self.in_flight))
            self.in_flight = None

    def lose_membership(self, cause: str, now: int) -> None:
        """Cancel all tasks, and rejoin: the coordinator has removed this member, or may have.

        Source: transitionToFenced and onPollTimerExpired of Kafka's ConsumerMembershipManager.
        """
        self.abandon()
        self.phase, self.epoch = ConsumerPhase.UNSUBSCRIBED, NOT_A_MEMBER
        self.target, self.accepted_subscription, self.resolve_at = frozenset(), None, None
        self.session.end()
        if self.has_generation or self.draining:
            self.log_event("lost", cause)
            self.end_all(End.LOST, 0, cause)
        self.due_at = now

    def fail(self, error: GroupError) -> None:
        """End the membership, and raise `error` to the application."""
        if self.phase is ConsumerPhase.LEFT:
            return
        self.abandon()
        if self.has_generation or self.draining:
            self.end_all(End.LOST, 0, str(error))
        self.enter_final_phase()
        self.actions.append(Raise(error))

    def finish_leave(self) -> None:
        """End the membership because the application left."""
        self.abandon()
        self.enter_final_phase()
        self.actions.append(Left())

    def enter_final_phase(self) -> None:
        """Enter the final phase, without deadlines."""
        self.phase, self.epoch = ConsumerPhase.LEFT, NOT_A_MEMBER
        self.due_at = self.resolve_at = None
        self.session.end()
