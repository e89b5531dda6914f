"""Sends heartbeats of the consumer protocol, and handles their responses and errors.

After a heartbeat without a response, or with an error, the coordinator's state is uncertain. The
next heartbeat then has all fields: only then the coordinator repeats a lost assignment.
"""

from typing import Final

from kohort.client.group_errors import CoordinatorUnavailableError, advice, fatal, moves_coordinator
from kohort.client.membership.consumer_state import NOT_A_MEMBER, ConsumerPhase, ConsumerState
from kohort.client.membership.events import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    End,
    ForgetCoordinator,
)
from kohort.client.membership.leaving import LEAVE_TIMEOUT_MS, next_leave_at
from kohort.client.membership.reconciling import handle_assignment
from kohort.errors import ErrorCode

LEAVE_GROUP_EPOCH: Final = -1
LEAVE_GROUP_STATIC_EPOCH: Final = -2
"""Epochs of a leave. With -2 the group keeps the assignment for the static member's return."""
HEARTBEATS_PER_SESSION: Final = 3
"""Number of consecutive heartbeats that can time out within a session."""

_FENCED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})
_NO_MEMBER: Final = _FENCED | {ErrorCode.group_id_not_found}


def send_next(member: ConsumerState, now: int) -> None:
    """Send the request that is due: a leave, a join or a heartbeat."""
    if member.leaving_because is not None and not member.draining:
        _send_leave(member, now)
    elif member.epoch != NOT_A_MEMBER:
        _send_heartbeat(member, now)
    elif member.releases_first:
        member.phase = ConsumerPhase.UNSUBSCRIBED
        keeps = member.config.is_static and not member.has_joined
        _send(member, _leave(member, LEAVE_GROUP_STATIC_EPOCH if keeps else LEAVE_GROUP_EPOCH), now)
    else:
        _send_join(member, now)


def _send_join(member: ConsumerState, now: int) -> None:
    """Join with epoch 0. After an earlier try a static member may be in the group already."""
    if member.phase is not ConsumerPhase.JOINING:
        member.log_event("join", "again" if member.has_joined else "as a new member")
    member.phase, member.may_be_member = ConsumerPhase.JOINING, True
    member.releases_first = member.config.is_static
    _send_full_heartbeat(member, now)


def _send_heartbeat(member: ConsumerState, now: int) -> None:
    """Send the changed fields. The list of owned partitions releases those missing in it."""
    member.acknowledges = member.phase is ConsumerPhase.ACKNOWLEDGING
    accepted, subscription = member.accepted_subscription, member.subscription
    if accepted is None:
        _send_full_heartbeat(member, now)
        return
    member.sent_subscription = subscription
    request = ConsumerGroupHeartbeat(
        member_id=member.member_id,
        epoch=member.epoch,
        topics=None if subscription.topics == accepted.topics else subscription.topics,
        owned=member.owned if member.acknowledges else None,
    )
    _send(member, request, now)


def _send_full_heartbeat(member: ConsumerState, now: int) -> None:
    subscription = member.sent_subscription = member.subscription
    joins = member.epoch == NOT_A_MEMBER
    request = ConsumerGroupHeartbeat(
        member_id=member.member_id,
        epoch=member.epoch,
        rack=member.config.rack,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        topics=subscription.topics,
        pattern=subscription.pattern,
        assignor=subscription.assignor,
        owned=frozenset() if joins else member.owned,
    )
    _send(member, request, now)


def _send_leave(member: ConsumerState, now: int) -> None:
    leaves = member.config.leave_group_on_close
    if not member.may_be_member or leaves is False:
        member.finish_leave()
        return
    member.phase = ConsumerPhase.LEAVING
    member.session.end()
    member.leave_until = min(member.leave_until, now + LEAVE_TIMEOUT_MS)
    epoch = (
        LEAVE_GROUP_STATIC_EPOCH
        if member.config.is_static and leaves is None
        else LEAVE_GROUP_EPOCH
    )
    _send(member, _leave(member, epoch), now)


def _leave(member: ConsumerState, epoch: int) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(member_id=member.member_id, epoch=epoch)


def _send(member: ConsumerState, request: ConsumerGroupHeartbeat, now: int) -> None:
    session_share_ms = max(member.config.session_timeout_ms // HEARTBEATS_PER_SESSION, 1)
    member.session.sent(now)
    member.due_at = None
    member.in_flight = member.send(request, min(member.request_timeout_ms, session_share_ms))


def handle_response(
    member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int
) -> None:
    """Handle the response to the request in flight."""
    error = response.error
    if member.phase is ConsumerPhase.LEAVING:
        _handle_leave_response(member, error, now)
    elif member.epoch == NOT_A_MEMBER and member.phase is not ConsumerPhase.JOINING:
        _handle_release_response(member, response, now)
    elif error is ErrorCode.none:
        _handle_success(member, response, now)
    elif error in _FENCED and member.phase is not ConsumerPhase.JOINING:
        member.releases_first = error is ErrorCode.fenced_member_epoch  # it is in the group
        member.lose_membership(f"the coordinator responded {error.name.upper()}", now)
    else:
        _handle_error(member, response, now)


def _handle_success(
    member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int
) -> None:
    joined = member.phase is ConsumerPhase.JOINING
    member.interval_ms = max(response.interval_ms, 1)
    member.session.responded(member.interval_ms, acknowledged=member.acknowledges)
    member.tries.succeeded()
    member.releases_first = False
    member.accepted_subscription, member.epoch = member.sent_subscription, max(response.epoch, 1)
    if response.assignment is not None or joined:
        handle_assignment(member, response.assignment or frozenset(), now)
    elif member.acknowledges and member.phase is ConsumerPhase.ACKNOWLEDGING:
        member.phase = ConsumerPhase.STABLE
    has_update = (
        member.phase is ConsumerPhase.ACKNOWLEDGING
        or member.subscription != member.accepted_subscription
        or (member.leaving_because is not None and not member.draining)
    )
    member.due_at = now if has_update else now + member.interval_ms


def _handle_error(
    member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int
) -> None:
    """Handle an error code; most codes end the membership, as in Kafka's consumer."""
    error = response.error
    reason = f"ConsumerGroupHeartbeat failed with {error.name.upper()}"
    if error is ErrorCode.topic_authorization_failed and member.has_joined:
        heartbeat_failed(member, f"{reason}. {advice(error)}", now)
        member.due_at = now + member.interval_ms
    elif error.retriable and advice(error) is None:
        if moves_coordinator(error):
            member.actions.append(ForgetCoordinator())
        heartbeat_failed(member, reason, now)
    elif error in _FENCED:
        heartbeat_failed(member, reason, now)
    else:
        member.fail(fatal(error, "ConsumerGroupHeartbeat", response.message))


def heartbeat_failed(member: ConsumerState, error: str, now: int) -> None:
    """Retry with a full heartbeat: there was no response, or an error that ends no membership."""
    member.accepted_subscription = None
    member.session.failures += 1
    lasting = member.tries.failed(now)
    if lasting >= member.config.retry_timeout_ms * (member.tries.reports + 1):
        unavailable = member.unavailable(error, lasting)
        if not member.has_joined and member.leaving_because is None:
            member.fail(CoordinatorUnavailableError(unavailable))
            return
        member.tries.reports += 1
        member.log_event("unavailable", f"{unavailable}; retrying")
    pause = member.backoff(member.session.failures)
    if member.epoch != NOT_A_MEMBER:
        pause = min(pause, member.interval_ms)
    member.log_event("heartbeat failed", f"{error}; next attempt in {pause} ms")
    member.due_at = now + pause


def _handle_release_response(
    member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int
) -> None:
    """Join after the leave; without a member id there is nothing to leave."""
    if response.error is ErrorCode.none or response.error in _NO_MEMBER:
        member.releases_first, member.due_at = False, now
    else:
        _handle_error(member, response, now)


def begin_leave(member: ConsumerState, now: int, reason: str, *, drain: bool) -> None:
    """End all partitions; the leave is sent when they are drained."""
    member.leaving_because = reason
    member.leave_until = now + member.config.drain_ms + LEAVE_TIMEOUT_MS
    member.resolve_at = None
    if member.has_generation:
        member.end_all(
            End.CLOSED if drain else End.LOST, member.drain_ms(now) if drain else 0, reason
        )
    member.draining = member.draining and drain


def _handle_leave_response(member: ConsumerState, error: ErrorCode, now: int) -> None:
    """Handle the response to a leave; it is retried only if the coordinator moved or loads."""
    if error is ErrorCode.coordinator_load_in_progress or moves_coordinator(error):
        member.actions.append(ForgetCoordinator())
        leave_failed(member, error.name.upper(), now)
    else:
        member.finish_leave()


def leave_failed(member: ConsumerState, error: str, now: int) -> None:
    """Retry the leave until `leave_until`."""
    member.due_at = next_leave_at(member, error, now)
    if member.due_at is None:
        member.finish_leave()
