"""Sends heartbeats, and handles the error codes of heartbeats and commits."""

from kohort.client.group_errors import advice, fatal, moves_coordinator
from kohort.client.membership.ending import fail, lose_membership, rebalance
from kohort.client.membership.events import ForgetCoordinator, Heartbeat
from kohort.client.membership.state import MembershipState, Phase
from kohort.errors import ErrorCode

HEARTBEATS_PER_SESSION = 3
"""Number of consecutive heartbeats that can time out within a session."""


def send_heartbeat(member: MembershipState, now: int) -> None:
    """Send a heartbeat, with a third of the session as its timeout."""
    session_share_ms = max(member.config.session_timeout_ms // HEARTBEATS_PER_SESSION, 1)
    request = Heartbeat(generation=member.generation, member_id=member.member_id)
    member.session.sent(member.send(request, min(member.request_timeout_ms, session_share_ms)), now)


def handle_heartbeat_response(member: MembershipState, error: ErrorCode, now: int) -> None:
    """Handle the error code; after a retriable one the next heartbeat is due soon."""
    if error is ErrorCode.none:
        member.session.responded(now, included=True)
    elif error is ErrorCode.rebalance_in_progress:
        has_join = member.phase is Phase.JOINING and member.session.was_sent_after_join
        member.session.responded(now, included=has_join)
        group_rebalances(member, now)
    elif advice(error) is None and error not in (
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
    ):
        if moves_coordinator(error):
            member.actions.append(ForgetCoordinator())
        heartbeat_failed(member, error.name.upper(), now)
    else:
        member.session.wait(now)
        membership_refused(member, error, now)


def heartbeat_failed(member: MembershipState, error: str, now: int) -> None:
    """Count a heartbeat without a response, or with an error that ends no membership."""
    remaining_ms = member.session.failed(now, member.backoff(member.session.failures + 1))
    member.log_event(
        "heartbeat failed",
        f"{error}; retrying, the session lasts for another {remaining_ms} ms",
    )


def membership_refused(member: MembershipState, error: ErrorCode, now: int) -> None:
    """Handle an error code of a heartbeat or commit that concerns the membership."""
    reason = f"the coordinator responded {error.name.upper()}"
    if error is ErrorCode.unknown_member_id:
        lose_membership(member, reason, forget=True)
    elif error is ErrorCode.illegal_generation:
        # While a JoinGroup is in flight this is expected: the group began a new generation with
        # this member, and the response to the JoinGroup will follow.
        if member.phase is not Phase.JOINING:
            lose_membership(member, reason)
    elif error is ErrorCode.rebalance_in_progress:
        group_rebalances(member, now)
    elif advice(error) is not None:
        fail(member, fatal(error, "a heartbeat or commit"))


def group_rebalances(member: MembershipState, now: int) -> None:
    """Begin to rebalance, unless the member already prepares to rejoin or leave."""
    is_new = member.rejoin_because is None and member.leaving_because is None
    if member.phase is Phase.STABLE and member.running and is_new:
        rebalance(member, "the group rebalances", now)
    elif member.phase is Phase.STABLE and member.rejoin_because is not None:
        member.retry_at = None  # a pause after a failure must not delay the other members
