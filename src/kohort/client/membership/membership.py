"""The membership of one classic group member, as a pure state machine: events in, actions out.

    actions = membership.join(now)                      # -> Send(1, JoinGroup(...))
    actions = membership.responded(now, 1, response)    # -> Send(2, SyncGroup(...)), or Assign(...)
    actions = membership.responded(now, 2, response)    # -> Start(grant)
    ...                                                 # tick(now) at `deadline`

Time is an argument, in ms of any monotonic clock; the source of randomness is an argument of the
constructor. So a test runs a thousand rebalances in a second against the pure coordinator
(`kohort.coordinator`).

The rules, each of which some client breaks:

- The member id is kept until UNKNOWN_MEMBER_ID, when the broker no longer has it. If a member drops
  its id earlier, the group waits for the old id.
- A generation ends *revoked* when the group rebalances (REBALANCE_IN_PROGRESS). The broker waits
  for this member, which drains and rejoins. A generation ends *lost* when the broker removed
  the member (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION), or may have: there was no heartbeat response
  for a session timeout.
- A retriable error (a broker restarts, a coordinator moves or loads) ends nothing. Heartbeats are
  retried until the session ends, the first join for `retry_timeout_ms`, later joins without limit.
- The member joins only after revoked partitions are drained: no partition ever has two owners.
- Cooperative members (KIP-429) join with the partitions that they own, and keep working on them.
  Partitions missing in the next assignment are then drained; a further join frees them for other
  members. Heartbeats continue meanwhile: code 27 means that the group waits for the member, code 25
  that it no longer does.

The state is in `state`, the rules are in one module per subject beside it.

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

MIN_BLOCKED_MS = 1_000
"""Minimum lateness of a tick at which the message says that the event loop was blocked."""


class Membership(MembershipState):
    """One membership. Each method is an event: it takes the time first, and returns actions."""

    @property
    def deadline(self) -> int | None:
        """Time at which `tick` is due; None: not at all."""
        deadlines = (self.session.heartbeat_at, self.retry_at, self.expires_at)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def is_leader(self) -> bool:
        return self.leads and self.phase is Phase.STABLE

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.LEFT

    # --- events of the application ---

    def join(self, now: int, reason: str = "") -> Actions:
        """Become a member, at first or after `abort`."""
        if not self.active and self.leaving_because is None:
            self.active = True
            self.request_rejoin(reason)
            if now < self.paused_until:
                self.retry_at = self.paused_until
                self.log_pause(now)
        return self._finish_event(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Rebalance because topics changed; during a rebalance, after it."""
        if self.phase is Phase.STABLE and self.running and self.leaving_because is None:
            rebalance(self, reason, now)
        elif self.phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING):
            self.outdated_because = reason
        return self._finish_event(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Lose partitions and their commits: their topics were deleted or recreated."""
        lost = tuple(tp for tp in self.current_assignment if tp in set(partitions))
        if lost and not self.draining:
            self.current_assignment = tuple(
                tp for tp in self.current_assignment if tp not in set(lost)
            )
            self.end(End.LOST, lost, 0, reason)
            rebalance(self, reason, now)
        return self._finish_event(now)

    def drained(self, now: int) -> Actions:
        """The partitions of the last `EndPartitions` are drained and their tasks joined."""
        self.draining = False
        return self._finish_event(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel all tasks, and do not rejoin until `join`.

        Each join makes the group rebalance. So the pause before it grows with each failure.
        """
        if self.has_generation:
            self.application_failed(now)
            self.end_all(End.CLOSED, 0, cause)
            self.active, self.rejoin_because = False, None
        return self._finish_event(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group, after a drain if `drain`; the last action is `Left`."""
        if self.leaving_because is None and not self.is_over:
            begin_leave(self, now, reason, drain=drain)
        return self._finish_event(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit in `generation` was refused with `code`."""
        if generation == self.generation >= 0 and not self.is_over:
            membership_refused(self, code, now)
        return self._finish_event(now)

    # --- events of the coordinator, the leader's assignor and the clock ---

    def responded(self, now: int, number: int, response: CoordinatorResponse) -> Actions:
        """The response to `Send(number, …)` arrived."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            handle_heartbeat_response(self, cast(PlainResponse, response).error, now)
        elif number == self.awaited_request:
            self.awaited_request = None
            if isinstance(response, JoinGroupResponse):
                handle_join_response(self, response, now)
            elif isinstance(response, SyncGroupResponse):
                handle_sync_response(self, response, now)
            else:
                handle_leave_response(self, response.error, now)
        return self._finish_event(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:
        """There is no response to `Send(number, …)`. `sent`: the request was sent, and timed
        out."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            heartbeat_failed(self, error, now)
        elif number == self.awaited_request:
            self.awaited_request = None
            if self.phase is Phase.LEAVING:
                leave_failed(self, error, now)
            else:
                request_failed(self, error, now, sent=sent)
        return self._finish_event(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """End the membership: the version, the credentials or the assignment failed."""
        fail(self, error)
        return self._finish_event(now)

    def assigned(self, now: int, generation: int, assignments: Mapping[str, bytes]) -> Actions:
        """The leader's assignment by member id is ready, for the `Assign` of that generation."""
        if self.phase is Phase.ASSIGNING and generation == self.generation:
            send_sync(self, tuple(assignments.items()), now)
        return self._finish_event(now)

    def tick(self, now: int) -> Actions:
        """Time passed: send the request that is due."""
        if self.expires_at is not None and self.expires_at <= now:
            lose_membership(self, self._expiry_cause(now - self.expires_at))
        if self.session.heartbeat_at is not None and self.session.heartbeat_at <= now:
            send_heartbeat(self, now)
        return self._finish_event(now)

    def _expiry_cause(self, late_ms: int) -> str:
        config = self.config
        if self.session.waits_for_session:
            cause = f"no heartbeat got a response for {config.session_timeout_ms} ms"
        else:
            cause = (
                f"the group waits {config.rebalance_timeout_ms} ms for a member, and may "
                "have completed the rebalance without it (rebalance_timeout_ms)"
            )
        blocked = (
            f"; the event loop was blocked for {late_ms} ms: do such work in asyncio.to_thread"
        )
        return cause + blocked * (late_ms > MIN_BLOCKED_MS)

    def _finish_event(self, now: int) -> Actions:
        """Send the JoinGroup or LeaveGroup that is due; returns the actions of the event."""
        if self.retry_at is not None and self.retry_at <= now:
            # Also if no request waits for it: a deadline in the past would be due for ever.
            self.retry_at = None
        if self.retry_at is not None or self.draining or self.phase in (Phase.LEFT, Phase.LEAVING):
            pass
        elif self.leaving_because is not None:
            send_leave(self, now)
        elif (
            self.rejoin_because is not None
            and self.awaited_request is None
            and self.phase in (Phase.OUT, Phase.STABLE)
        ):
            send_join(self, now)
        actions, self.actions = tuple(self.actions), []
        return actions
