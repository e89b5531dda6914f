"""The membership of one member in the consumer protocol (KIP-848), as a pure state machine.

    actions = membership.join(now)                      # -> Send(1, ConsumerGroupHeartbeat(...))
    actions = membership.responded(now, 1, response)    # -> ResolveTopics({id})
    actions = membership.resolved(now, {id: "orders"})  # -> Start(grant), Send(2, ...)
    ...                                                 # tick(now) at `deadline`

It has the events and actions of `Membership`, so that the same application runs with either
protocol. A generation is one assignment: tasks of partitions in both of two generations continue,
as with a cooperative assignor. The coordinator computes the assignment and sends changes in
heartbeat responses. There is no common rebalance: members change one by one.

The rules:

- The member chooses its member id once, and keeps it.
- Heartbeats continue while topic ids are resolved and partitions are drained and added, one in
  flight at a time, at the coordinator's interval. A heartbeat with all owned partitions follows as
  soon as an assignment is reconciled: it acknowledges the revocations. Revoked partitions have no
  tasks by then.
- Revoked partitions drain no longer than the rebalance timeout, counted from the first heartbeat
  whose response may have revoked them.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID end all partitions as lost, and the member rejoins when
  their tasks have ended. So does a session without a response: Kafka's consumer has no such limit,
  and would continue beside the next owner. A member that the group may still have leaves it first:
  its next epoch fences what it sent before.
- Commits have the epoch of the last response, which can change within a generation.

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
        """Time at which `tick` is due; None: not at all."""
        leaves = self.leaving_because is not None and not self.is_over
        deadlines = (
            self.due_at if self._has_request else None,
            self.session.alive_until,
            self.resolve_at,
            self.paused_until if self._waits_to_start else None,
            self.leave_until if leaves else None,
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def is_leader(self) -> bool:
        """Never: the coordinator computes assignments."""
        return False

    @property
    def is_over(self) -> bool:
        return self.phase is ConsumerPhase.LEFT

    # --- events of the application ---

    def join(self, now: int) -> Actions:
        """Become a member, or request a generation after `abort`."""
        if not self.active and self.leaving_because is None:
            self.active = True
            if now < self.paused_until:
                self.log_pause(now)
            if self.epoch == NOT_A_MEMBER:
                self.hasten(now)
            else:
                self.phase = ConsumerPhase.RECONCILING
                reconcile(self, now)
        return self._finish_event(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Send a changed subscription to the coordinator."""
        if self.epoch != NOT_A_MEMBER:
            self.log_event("topics", reason)
            self.hasten(now)
        return self._finish_event(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Lose partitions and their commits: their topics were deleted or recreated.

        Partitions that stay in the assignment are added again when the cluster resolves their topic
        ids.
        """
        lost = {
            partition: name
            for partition, name in self.current_assignment.items()
            if name in set(partitions)
        }
        if lost and not self.draining:
            for partition in lost:
                del self.current_assignment[partition]
                self.names.pop(partition.topic_id, None)
            self.end(End.LOST, tuple(sorted(lost.values())), 0, reason)
            begin_to_reconcile(self, now)
        return self._finish_event(now)

    def drained(self, now: int) -> Actions:
        """The partitions of the last `EndPartitions` are drained and their tasks joined."""
        self.draining = False
        self.revoking = {}
        if self.leaving_because is not None or self.epoch == NOT_A_MEMBER:
            self.hasten(now)
        reconcile(self, now)
        return self._finish_event(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel all tasks, and begin no generation until `join`.

        The member stays in the group, which is not notified, and releases revoked partitions.
        """
        if self.has_generation:
            self.application_failed(now)
            self.end_all(End.CLOSED, 0, cause)
            self.active = False
        return self._finish_event(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group, after a drain if `drain`; the last action is `Left`."""
        if self.leaving_because is None and not self.is_over:
            begin_leave(self, now, reason, drain=drain)
            if not self.draining:
                self.hasten(now)
        return self._finish_event(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit at the epoch `generation` was refused with `code`."""
        if self.is_over or generation != self.generation:
            return self._finish_event(now)
        if code in (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch):
            # The commit may have been sent to a former coordinator; a heartbeat's response decides.
            self.accepted_subscription = None
            self.hasten(now)
        elif advice(code) is not None:
            self.fail(fatal(code, "a commit"))
        return self._finish_event(now)

    # --- events of the coordinator, the cluster and the clock ---

    def responded(self, now: int, number: int, response: CoordinatorResponse) -> Actions:
        """The response to `Send(number, …)` arrived."""
        if number == self.in_flight:
            self.in_flight = None
            handle_response(self, cast(ConsumerGroupHeartbeatResponse, response), now)
        return self._finish_event(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:  # noqa: ARG002
        """There is no response to `Send(number, …)`."""
        if number == self.in_flight:
            self.in_flight = None
            self.actions.append(ForgetCoordinator())
            if self.phase is ConsumerPhase.LEAVING:
                leave_failed(self, error, now)
            else:
                heartbeat_failed(self, error, now)
        return self._finish_event(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """End the membership: the broker does not support the version, or refused the
        credentials."""
        self.fail(error)
        return self._finish_event(now)

    def resolved(self, now: int, names: Mapping[UUID, str]) -> Actions:
        """Names for the last `ResolveTopics`, without ids that the cluster does not know."""
        if not self.is_over:
            handle_names(self, names, now)
        return self._finish_event(now)

    def tick(self, now: int) -> Actions:
        """Time passed: send the request that is due."""
        alive_until = self.session.alive_until
        if alive_until is not None and alive_until <= now:
            self.releases_first = True
            self.lose_membership(
                "the coordinator may have removed this member: no heartbeat, or none that releases "
                "revoked partitions, got a response for too long (session_timeout_ms, "
                "rebalance_timeout_ms)",
                now,
            )
        if self.resolve_at is not None and self.resolve_at <= now:
            self.resolve_at = None
            resolve(self)
        if self.leaving_because is not None and self.leave_until <= now and not self.is_over:
            self.log_event(
                "left", "without the coordinator's response: the session timeout ends it"
            )
            self.finish_leave()
        reconcile(self, now)
        return self._finish_event(now)

    @property
    def _waits_to_start(self) -> bool:
        """Whether a generation waits only for the pause after a failure of the application."""
        return (
            self.phase is ConsumerPhase.RECONCILING
            and self.active
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
        return self.epoch != NOT_A_MEMBER or (self.active and not self.draining)

    def _finish_event(self, now: int) -> Actions:
        """Send the request that is due; returns the actions of the event."""
        if self._has_request and self.due_at is not None and self.due_at <= now:
            send_next(self, now)
        actions, self.actions = tuple(self.actions), []
        return actions


AnyMembership: TypeAlias = Membership | ConsumerMembership
