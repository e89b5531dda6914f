"""The membership of one member in the consumer protocol (KIP-848), as a pure state machine.

    actions = membership.join(now)                      # -> Send(1, ConsumerGroupHeartbeat(...))
    actions = membership.responded(now, 1, response)    # -> ResolveTopics({id})
    actions = membership.resolved(now, {id: "orders"})  # -> Start(grant), Send(2, ...)
    ...                                                 # tick(now) at `deadline`

It has the events and actions of `Membership`, so that the same application runs with either
protocol. A generation is one assignment: partitions that stay run on, as with a cooperative
assignor. The coordinator decides on the assignment and tells changes in heartbeat responses. There
is no common rebalance: members change one by one.

The rules:

- The member id is the member's own, for its whole life.
- Heartbeats go on while partitions are named, drained and added, one in flight at a time, at the
  coordinator's interval. One with all owned partitions follows as soon as an assignment is
  reconciled: it acknowledges the revocations. No partition is worked on after that.
- Revoked partitions drain no longer than the rebalance timeout, counted from the first heartbeat
  whose response may have revoked them.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID end all partitions as lost, and the member joins again
  when their tasks have ended. So does a session without a response: Kafka's consumer does not
  count it, and would go on beside the next owner.
- The epoch of commits is the one of the last response. It changes while a generation goes on.

The state is in `consumer_state`, and the rules are in `consumer_heartbeats` and `reconciling`.

Source: AbstractMembershipManager, ConsumerMembershipManager and ConsumerHeartbeatRequestManager of
Kafka's consumer.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast
from uuid import UUID

from kohort.client.group_errors import GroupError, advice, fatal
from kohort.client.membership.consumer_heartbeats import (
    begin_leave,
    handle_response,
    heartbeat_failed,
    leave_failed,
    send_next,
)
from kohort.client.membership.consumer_state import NOT_A_MEMBER, ConsumerPhase, ConsumerState
from kohort.client.membership.events import (
    ConsumerGroupHeartbeatResponse,
    CoordinatorResponse,
    End,
    ForgetCoordinator,
)
from kohort.client.membership.membership import Actions, Membership
from kohort.client.membership.reconciling import (
    begin_to_reconcile,
    handle_names,
    reconcile,
    resolve,
)
from kohort.errors import ErrorCode
from kohort.types import TopicPartition


class ConsumerMembership(ConsumerState):
    """One membership. Each method is an event: it takes the time first, and returns actions."""

    @property
    def deadline(self) -> int | None:
        """When `tick` is due; None if it is not."""
        leaves = self.leaving_because is not None and not self.is_over
        due = (
            self.due_at if self._has_request else None,
            self.session.alive_until,
            self.resolve_at,
            self.out_until if self._waits_to_start else None,
            self.leave_until if leaves else None,
        )
        return min((at for at in due if at is not None), default=None)

    @property
    def is_leader(self) -> bool:
        """Never: the coordinator computes assignments."""
        return False

    @property
    def is_over(self) -> bool:
        return self.phase is ConsumerPhase.LEFT

    # --- what the application wants ---

    def join(self, now: int) -> Actions:
        """Become a member, or have a generation again after `abort`."""
        if not self.wanted and self.leaving_because is None:
            self.wanted = True
            if now < self.out_until:
                self.tell_pause(now)
            if self.epoch == NOT_A_MEMBER:
                self.hasten(now)
            else:
                self.phase = ConsumerPhase.RECONCILING
                reconcile(self, now)
        return self._settled(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Tell the coordinator of another subscription."""
        if self.epoch != NOT_A_MEMBER:
            self.tell("topics", reason)
            self.hasten(now)
        return self._settled(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Lose partitions and their commits: their topics were deleted or recreated.

        If the coordinator assigns them all the same, they are added again when the cluster knows
        their topic ids.
        """
        gone = {each: name for each, name in self.held.items() if name in set(partitions)}
        if gone and not self.draining:
            for each in gone:
                del self.held[each]
                self.names.pop(each.topic_id, None)
            self.end(End.LOST, tuple(sorted(gone.values())), 0, reason)
            begin_to_reconcile(self, now)
        return self._settled(now)

    def drained(self, now: int) -> Actions:
        """The partitions of the last `EndPartitions` are drained and their tasks joined."""
        self.draining = False
        self.ending = {}
        if self.leaving_because is not None or self.epoch == NOT_A_MEMBER:
            self.hasten(now)
        reconcile(self, now)
        return self._settled(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel all tasks, and begin no generation until `join`.

        The member stays in the group, which does not hear of it, and gives up what is revoked.
        """
        if self.has_generation:
            self.application_failed(now)
            self.end_all(End.CLOSED, 0, cause)
            self.wanted = False
        return self._settled(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group after draining, or lose everything at once; the last action is `Left`."""
        if self.leaving_because is None and not self.is_over:
            begin_leave(self, now, reason, drain=drain)
            if not self.draining:
                self.hasten(now)
        return self._settled(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit at the epoch `generation` was refused with `code`."""
        if self.is_over or generation != self.generation:
            return self._settled(now)
        if code in (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch):
            # The commit may have gone to a coordinator of the past; a heartbeat's response decides.
            self.known = None
            self.hasten(now)
        elif advice(code) is not None:
            self.fail(fatal(code, "a commit"))
        return self._settled(now)

    # --- what the coordinator, the cluster and the clock say ---

    def responded(self, now: int, number: int, response: CoordinatorResponse) -> Actions:
        """The response to `Send(number, …)` arrived."""
        if number == self.in_flight:
            self.in_flight = None
            handle_response(self, cast(ConsumerGroupHeartbeatResponse, response), now)
        return self._settled(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:  # noqa: ARG002
        """There is no response to `Send(number, …)`."""
        if number == self.in_flight:
            self.in_flight = None
            self.actions.append(ForgetCoordinator())
            if self.phase is ConsumerPhase.LEAVING:
                leave_failed(self, error, now)
            else:
                heartbeat_failed(self, error, now)
        return self._settled(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """End the membership: versions or credentials cannot be had."""
        self.fail(error)
        return self._settled(now)

    def resolved(self, now: int, names: Mapping[UUID, str]) -> Actions:
        """Names of the last `ResolveTopics`; ids that the cluster does not know are left out."""
        if not self.is_over:
            handle_names(self, names, now)
        return self._settled(now)

    def tick(self, now: int) -> Actions:
        """Time passed: send what is due."""
        alive_until = self.session.alive_until
        if alive_until is not None and alive_until <= now:
            self.releases_first = self.config.is_static
            self.lose_membership(
                "the coordinator may have removed this member: no heartbeat, or none that gives up "
                "what was revoked, got a response for too long (session_timeout_ms, "
                "rebalance_timeout_ms)",
                now,
            )
        if self.resolve_at is not None and self.resolve_at <= now:
            self.resolve_at = None
            resolve(self)
        if self.leaving_because is not None and self.leave_until <= now and not self.is_over:
            self.tell("left", "without the coordinator's response: the session timeout ends it")
            self.be_left()
        reconcile(self, now)
        return self._settled(now)

    @property
    def _waits_to_start(self) -> bool:
        """Whether only the pause after a failure of the application delays a generation."""
        return (
            self.phase is ConsumerPhase.RECONCILING
            and self.wanted
            and self.leaving_because is None
            and not self.draining
            and not self.resolving
        )

    @property
    def _has_request(self) -> bool:
        """Whether a request may be sent, now or at `due_at`."""
        if self.in_flight is not None or self.is_over:
            return False
        if self.leaving_because is not None and not self.draining:
            return True
        return self.epoch != NOT_A_MEMBER or (self.wanted and not self.draining)

    def _settled(self, now: int) -> Actions:
        """The actions of the event, with the request that is due."""
        if self._has_request and self.due_at is not None and self.due_at <= now:
            send_next(self, now)
        actions, self.actions = tuple(self.actions), []
        return actions


AnyMembership: TypeAlias = Membership | ConsumerMembership
