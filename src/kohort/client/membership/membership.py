"""The membership of one classic group member, as a pure state machine: events in, actions out.

    actions = membership.join(now)                      # -> Send(1, JoinGroup(...))
    actions = membership.responded(now, 1, response)    # -> Send(2, SyncGroup(...)), or Assign(...)
    actions = membership.responded(now, 2, response)    # -> Start(grant)
    ...                                                 # tick(now) at `deadline`

Time is an argument, in ms of any monotonic clock; the source of randomness is passed in at the
start. So a test runs a thousand rebalances in a second against a coordinator that is also pure
(`kohort.coordinator`).

The rules, each of which some client gets wrong:

- The member id is kept until UNKNOWN_MEMBER_ID, when the broker has forgotten it. A member that
  drops its id earlier leaves a member behind that the group waits for.
- A generation ends *revoked* when the group rebalances (REBALANCE_IN_PROGRESS). The broker waits
  for this member, which drains and joins again. A generation ends *lost* when the broker removed
  the member (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION), or may have: there was no heartbeat response
  for a session timeout.
- A retriable error (a broker restarts, a coordinator moves or loads) ends nothing. Heartbeats are
  retried until the session ends, joins for ever: only the first one until `retry_timeout_ms` is
  over.
- The member joins only after revoked partitions are drained: no partition ever has two owners.
- Cooperative members (KIP-429) join with the partitions that they own, and keep working on them.
  Partitions missing in the next assignment are drained then; a further join frees them for others.
  Heartbeats continue meanwhile: code 27 says that the group waits for the member, code 25 that it
  no longer does.

The state is in `state`, and the rules are in one module per subject beside it.

Source: AbstractCoordinator and ConsumerCoordinator of Kafka's consumer; KIP-345, 394, 429, 559,
800, 814.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast

from kohort.client.group_errors import GroupError
from kohort.client.membership.ending import fail, lose_membership, rebalance
from kohort.client.membership.events import (
    Action,
    CoordinatorResponse,
    End,
    JoinGroupResponse,
    PlainResponse,
    SyncGroupResponse,
)
from kohort.client.membership.heartbeats import (
    handle_heartbeat_response,
    heartbeat_failed,
    membership_refused,
    send_heartbeat,
)
from kohort.client.membership.joining import (
    handle_join_response,
    handle_sync_response,
    request_failed,
    send_join,
    send_sync,
)
from kohort.client.membership.leaving import (
    begin_leave,
    handle_leave_response,
    leave_failed,
    send_leave,
)
from kohort.client.membership.state import MembershipState, Phase
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

Actions: TypeAlias = tuple[Action, ...]

BLOCKED_MS = 1_000
"""Lateness of a tick from which the message about it says that the event loop was blocked."""


class Membership(MembershipState):
    """One membership. Each method is an event: it takes the time first, and returns actions."""

    @property
    def deadline(self) -> int | None:
        """When `tick` is due; None if it is not."""
        due = (self.session.beat_at, self.retry_at, self.expires_at)
        return min((at for at in due if at is not None), default=None)

    @property
    def is_leader(self) -> bool:
        return self.leads and self.phase is Phase.STABLE

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.LEFT

    # --- what the application wants ---

    def join(self, now: int, reason: str = "") -> Actions:
        """Become a member, at first or again after `abort`."""
        if not self.wanted and self.leaving_because is None:
            self.wanted = True
            self.want_join(reason)
            if now < self.out_until:
                self.retry_at = self.out_until
                self.tell_pause(now)
        return self._settled(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Rebalance because topics changed; if a rebalance is under way, after it."""
        if self.phase is Phase.STABLE and self.running and self.leaving_because is None:
            rebalance(self, reason, now)
        elif self.phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING):
            self.outdated_because = reason
        return self._settled(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Lose partitions and their commits: their topics were deleted or recreated."""
        gone = tuple(each for each in self.held if each in set(partitions))
        if gone and not self.draining:
            self.held = tuple(each for each in self.held if each not in set(gone))
            self.end(End.LOST, gone, 0, reason)
            rebalance(self, reason, now)
        return self._settled(now)

    def drained(self, now: int) -> Actions:
        """The partitions of the last `EndPartitions` are drained and their tasks joined."""
        self.draining = False
        return self._settled(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel all tasks, and stay out of the group until `join`.

        Each join makes the others rebalance. So the pause before it grows with each failure.
        """
        if self.has_generation:
            self.application_failed(now)
            self.end_all(End.CLOSED, 0, cause)
            self.wanted, self.rejoin_because = False, None
        return self._settled(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group after draining, or lose everything at once; the last action is `Left`."""
        if self.leaving_because is None and not self.is_over:
            begin_leave(self, now, reason, drain=drain)
        return self._settled(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit in `generation` was refused with `code`."""
        if generation == self.generation >= 0 and not self.is_over:
            membership_refused(self, code, now)
        return self._settled(now)

    # --- what the coordinator, the leader's assignor and the clock say ---

    def responded(self, now: int, number: int, response: CoordinatorResponse) -> Actions:
        """The response to `Send(number, …)` arrived."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            handle_heartbeat_response(self, cast(PlainResponse, response).error, now)
        elif number == self.awaited:
            self.awaited = None
            if isinstance(response, JoinGroupResponse):
                handle_join_response(self, response, now)
            elif isinstance(response, SyncGroupResponse):
                handle_sync_response(self, response, now)
            else:
                handle_leave_response(self, response.error, now)
        return self._settled(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:
        """There is no response to `Send(number, …)`. `sent`: it was sent, and timed out."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            heartbeat_failed(self, error, now)
        elif number == self.awaited:
            self.awaited = None
            if self.phase is Phase.LEAVING:
                leave_failed(self, error, now)
            else:
                request_failed(self, error, now, sent=sent)
        return self._settled(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """End the membership: versions, credentials or the assignment cannot be had."""
        fail(self, error)
        return self._settled(now)

    def assigned(self, now: int, generation: int, assignments: Mapping[str, bytes]) -> Actions:
        """The leader's assignment by member id is ready, for the `Assign` of that generation."""
        if self.phase is Phase.ASSIGNING and generation == self.generation:
            send_sync(self, tuple(assignments.items()), now)
        return self._settled(now)

    def tick(self, now: int) -> Actions:
        """Time passed: send what is due."""
        if self.expires_at is not None and self.expires_at <= now:
            lose_membership(self, self._why_expired(now - self.expires_at))
        if self.session.beat_at is not None and self.session.beat_at <= now:
            send_heartbeat(self, now)
        return self._settled(now)

    def _why_expired(self, late: int) -> str:
        config = self.config
        if self.session.waits_for_session:
            told = f"no heartbeat got a response for {config.session_timeout_ms} ms"
        else:
            told = (
                f"the group waits {config.rebalance_timeout_ms} ms for a member, and may "
                "have gone on without this one"
                " (rebalance_timeout_ms)"
            )
        blocked = f"; the event loop was blocked for {late} ms: do such work in asyncio.to_thread"
        return told + blocked * (late > BLOCKED_MS)

    def _settled(self, now: int) -> Actions:
        """The actions of the event, with a join or leave that waited for it."""
        if self.retry_at is not None and self.retry_at <= now:
            # Also if nothing waits for it any more: a deadline in the past would be due for ever.
            self.retry_at = None
        if self.retry_at is not None or self.draining or self.phase in (Phase.LEFT, Phase.LEAVING):
            pass
        elif self.leaving_because is not None:
            send_leave(self, now)
        elif (
            self.rejoin_because is not None
            and self.awaited is None
            and self.phase in (Phase.OUT, Phase.STABLE)
        ):
            send_join(self, now)
        actions, self.actions = tuple(self.actions), []
        return actions
