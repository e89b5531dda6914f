"""Ends a member's partitions early: revoked by a rebalance, lost, or failed with an error."""

from kohort.client.group_errors import GroupError
from kohort.client.membership.events import End, Raise
from kohort.client.membership.state import MembershipState, Phase


def rebalance(member: MembershipState, reason: str, now: int) -> None:
    """Rejoin the group; an eager member first drains all its partitions."""
    member.log_event("rebalance", reason)
    if not member.cooperative:
        member.end_all(End.REVOKED, member.drain_ms(now), reason)
    member.request_rejoin(reason)


def lose_membership(member: MembershipState, cause: str, *, forget: bool = False) -> None:
    """Cancel all tasks, and rejoin: the coordinator has removed this member, or may have.

    `forget`: drop the member id, as the coordinator no longer has it.
    """
    if forget:
        member.member_id = ""
    member.abandon()
    member.generation, member.leads = -1, False
    member.session.end()
    member.phase = Phase.OUT
    if member.has_generation or member.draining:
        member.log_event("lost", cause)
        member.end_all(End.LOST, 0, cause)
    member.request_rejoin(cause)


def fail(member: MembershipState, error: GroupError) -> None:
    """End the membership, and raise `error` to the application."""
    if member.phase is Phase.LEFT:
        return
    member.abandon()
    if member.has_generation or member.draining:
        member.end_all(End.LOST, 0, str(error))
    enter_final_phase(member)
    member.actions.append(Raise(error))


def enter_final_phase(member: MembershipState) -> None:
    """Enter the final phase, without deadlines."""
    member.phase = Phase.LEFT
    member.rejoin_because = member.retry_at = None
    member.session.end()
