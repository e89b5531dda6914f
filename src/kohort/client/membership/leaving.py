"""Leaves the group within LEAVE_TIMEOUT_MS, with or without a response of the coordinator.

The session timeout removes a member whose LeaveGroup did not arrive.
"""

from typing import Final

from kohort.client.group_errors import moves_coordinator
from kohort.client.membership.ending import enter_final_phase
from kohort.client.membership.events import End, ForgetCoordinator, LeaveGroup, Left
from kohort.client.membership.state import MembershipState, MemberState, Phase
from kohort.errors import ErrorCode

LEAVE_TIMEOUT_MS: Final = 5_000
"""Time limit of a leave; the session timeout has the same effect a little later."""


def begin_leave(member: MembershipState, now: int, reason: str, *, drain: bool) -> None:
    """End all partitions; LeaveGroup is sent when they are drained."""
    member.leaving_because = reason
    member.rejoin_because = member.retry_at = None
    member.leave_until = now + member.config.drain_ms + LEAVE_TIMEOUT_MS
    if member.has_generation:
        member.end_all(
            End.CLOSED if drain else End.LOST, member.drain_ms(now) if drain else 0, reason
        )
    member.draining = member.draining and drain


def send_leave(member: MembershipState, now: int) -> None:
    """Send LeaveGroup; a static member sends none unless it is configured to."""
    member.abandon()
    if not member.member_id or not member.config.sends_leave:
        finish_leave(member)
        return
    member.phase = Phase.LEAVING
    member.session.end()
    member.leave_until = min(member.leave_until, now + LEAVE_TIMEOUT_MS)
    request = LeaveGroup(member_id=member.member_id, reason=member.leaving_because or "")
    member.awaited_request = member.send(
        request, min(member.request_timeout_ms, max(member.leave_until - now, 1))
    )


def handle_leave_response(member: MembershipState, error: ErrorCode, now: int) -> None:
    """Handle the response; LeaveGroup is retried only if the coordinator moved or loads."""
    if error is ErrorCode.coordinator_load_in_progress or moves_coordinator(error):
        member.actions.append(ForgetCoordinator())
        leave_failed(member, error.name.upper(), now)
    else:
        finish_leave(member)


def leave_failed(member: MembershipState, error: str, now: int) -> None:
    """Retry LeaveGroup until `leave_until`."""
    member.retry_at = next_leave_at(member, error, now)
    if member.retry_at is None:
        finish_leave(member)
    else:
        member.phase = Phase.OUT


def next_leave_at(member: MemberState, error: str, now: int) -> int | None:
    """Time of the next attempt to leave; None, which is logged, if it is after `leave_until`."""
    retry_at = now + member.backoff(1)
    if retry_at < member.leave_until:
        return retry_at
    member.log_event(
        "left",
        f"without the coordinator's response ({error}): the session timeout ends the membership",
    )
    return None


def finish_leave(member: MembershipState) -> None:
    """End the membership because the application left."""
    enter_final_phase(member)
    member.actions.append(Left())
