"""Requests of a member in the consumer protocol, and what their responses and errors mean.

After a heartbeat without a response, or with an error, the coordinator's state is unsure. The next
one then has all fields: only such a request gets an assignment whose response was lost.
"""

from typing import Final

from kohort.client.group_errors import (
    CoordinatorUnavailableError,
    advice,
    fatal,
    moves_coordinator,
)
from kohort.client.membership.consumer_state import NOT_A_MEMBER, ConsumerPhase, ConsumerState
from kohort.client.membership.events import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    End,
    ForgetCoordinator,
)
from kohort.client.membership.leaving import LEAVE_WITHIN_MS
from kohort.client.membership.reconciling import handle_assignment
from kohort.errors import ErrorCode

LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
"""The epochs with which a member leaves; with the second one a static member keeps its place."""
HEARTBEATS_PER_SESSION: Final = 3
"""Heartbeats that can time out, one after the other, within a session."""

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
        _send(member, _leave(member, LEAVE_FOR_A_WHILE), now)
    else:
        _send_join(member, now)


def _send_join(member: ConsumerState, now: int) -> None:
    """Join with epoch 0. A static member that sent it before may be in the group already."""
    if member.phase is not ConsumerPhase.JOINING:
        member.tell("join", "again" if member.has_joined else "as a new member")
    member.phase, member.is_known = ConsumerPhase.JOINING, True
    member.releases_first = member.config.is_static
    _send_everything(member, now)


def _send_heartbeat(member: ConsumerState, now: int) -> None:
    """Send what changed. A list of owned partitions releases the revoked ones that it lacks."""
    member.acknowledges = member.phase is ConsumerPhase.ACKNOWLEDGING
    known, wanted = member.known, member.subscription
    if known is None:
        _send_everything(member, now)
        return
    member.sending = wanted
    request = ConsumerGroupHeartbeat(
        member_id=member.member_id,
        epoch=member.epoch,
        topics=None if wanted.topics == known.topics else wanted.topics,
        owned=member.owned if member.acknowledges else None,
    )
    _send(member, request, now)


def _send_everything(member: ConsumerState, now: int) -> None:
    wanted = member.sending = member.subscription
    joins = member.epoch == NOT_A_MEMBER
    request = ConsumerGroupHeartbeat(
        member_id=member.member_id,
        epoch=member.epoch,
        rack=member.config.rack,
        rebalance_timeout_ms=wanted.rebalance_timeout_ms,
        topics=wanted.topics,
        pattern=wanted.pattern,
        assignor=wanted.assignor,
        owned=frozenset() if joins else member.owned,
    )
    _send(member, request, now)


def _send_leave(member: ConsumerState, now: int) -> None:
    leaves = member.config.leave_group_on_close
    if not member.is_known or leaves is False:
        member.be_left()
        return
    member.phase = ConsumerPhase.LEAVING
    member.session.end()
    member.leave_until = min(member.leave_until, now + LEAVE_WITHIN_MS)
    epoch = LEAVE_FOR_A_WHILE if member.config.is_static and leaves is None else LEAVE
    _send(member, _leave(member, epoch), now)


def _leave(member: ConsumerState, epoch: int) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(member_id=member.member_id, epoch=epoch)


def _send(member: ConsumerState, request: ConsumerGroupHeartbeat, now: int) -> None:
    of_session = max(member.config.session_timeout_ms // HEARTBEATS_PER_SESSION, 1)
    member.session.sent(now)
    member.due_at = None
    member.in_flight = member.send(request, min(member.request_timeout_ms, of_session))


def handle_response(
    member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int
) -> None:
    """Handle the response to the request that was in flight."""
    error = response.error
    if member.phase is ConsumerPhase.LEAVING:
        _left(member, error, now)
    elif member.epoch == NOT_A_MEMBER and member.phase is not ConsumerPhase.JOINING:
        _released(member, response, now)
    elif error is ErrorCode.none:
        _accepted(member, response, now)
    elif error in _FENCED and member.phase is not ConsumerPhase.JOINING:
        # Without -2 before it, the join of a static member that is still known gets
        # UNRELEASED_INSTANCE_ID. An unknown member has nothing to release.
        member.releases_first = member.config.is_static and error is ErrorCode.fenced_member_epoch
        member.lose_membership(f"the coordinator responded {error.name.upper()}", now)
    else:
        _refused(member, response, now)


def _accepted(member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
    joined = member.phase is ConsumerPhase.JOINING
    member.interval_ms = max(response.interval_ms, 1)
    member.session.responded(member.interval_ms, acknowledged=member.acknowledges)
    member.tries.succeeded()
    member.releases_first = False
    member.known, member.epoch = member.sending, max(response.epoch, 1)
    if response.assignment is not None or joined:
        handle_assignment(member, response.assignment or frozenset(), now)
    elif member.acknowledges and member.phase is ConsumerPhase.ACKNOWLEDGING:
        member.phase = ConsumerPhase.STABLE
    has_news = (
        member.phase is ConsumerPhase.ACKNOWLEDGING
        or member.subscription != member.known
        or (member.leaving_because is not None and not member.draining)
    )
    member.due_at = now if has_news else now + member.interval_ms


def _refused(member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
    """Handle an error code; most end the membership, as in Kafka's consumer."""
    error = response.error
    told = f"ConsumerGroupHeartbeat failed with {error.name.upper()}"
    if error is ErrorCode.topic_authorization_failed and member.has_joined:
        heartbeat_failed(member, f"{told}. {advice(error)}", now)
        member.due_at = now + member.interval_ms
    elif error.retriable and advice(error) is None:
        if moves_coordinator(error):
            member.actions.append(ForgetCoordinator())
        heartbeat_failed(member, told, now)
    elif error in _FENCED:
        heartbeat_failed(member, told, now)
    else:
        member.fail(fatal(error, "ConsumerGroupHeartbeat", response.message))


def heartbeat_failed(member: ConsumerState, error: str, now: int) -> None:
    """There is no response, or one that says nothing of the membership: send everything again."""
    member.known = None
    member.session.failures += 1
    lasting = member.tries.failed(now)
    if lasting >= member.config.retry_timeout_ms * (member.tries.told + 1):
        unavailable = member.unavailable(error, lasting)
        if not member.has_joined and member.leaving_because is None:
            member.fail(CoordinatorUnavailableError(unavailable))
            return
        member.tries.told += 1
        member.tell("unavailable", f"{unavailable}; it goes on trying")
    pause = member.backoff(member.session.failures)
    if member.epoch != NOT_A_MEMBER:
        pause = min(pause, member.interval_ms)
    member.tell("heartbeat failed", f"{error}; tried again in {pause} ms")
    member.due_at = now + pause


def _released(member: ConsumerState, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
    """Join after -2, which an instance that nobody has does not need."""
    if response.error is ErrorCode.none or response.error in _NO_MEMBER:
        member.releases_first, member.due_at = False, now
    else:
        _refused(member, response, now)


def begin_leave(member: ConsumerState, now: int, reason: str, *, drain: bool) -> None:
    """End what the member holds; the leave is sent when that is drained."""
    member.leaving_because = reason
    member.leave_until = now + member.config.drain_ms + LEAVE_WITHIN_MS
    member.resolve_at = None
    if member.has_generation:
        member.end_all(
            End.CLOSED if drain else End.LOST, member.drain_ms(now) if drain else 0, reason
        )
    member.draining = member.draining and drain


def _left(member: ConsumerState, error: ErrorCode, now: int) -> None:
    """Handle the response to a leave; only a coordinator that moved or loads is asked again."""
    if error is ErrorCode.coordinator_load_in_progress or moves_coordinator(error):
        member.actions.append(ForgetCoordinator())
        leave_failed(member, error.name.upper(), now)
    else:
        member.be_left()


def leave_failed(member: ConsumerState, error: str, now: int) -> None:
    """Send the leave again as long as there is time."""
    again = now + member.backoff(1)
    if again >= member.leave_until:
        member.tell(
            "left",
            f"without the coordinator's response ({error}): "
            "the session timeout ends the membership",
        )
        member.be_left()
    else:
        member.due_at = again
