"""How what a member holds ends before its time: revoked, since the group rebalances; lost, since
the group goes on without it; and with an error, since there is no membership any more.
"""

from kohort.client.group_errors import GroupError
from kohort.client.membership.events import End, Raise
from kohort.client.membership.state import MembershipState, Phase


def rebalance(member: MembershipState, reason: str, now: int) -> None:
    """Join again, eager members after they have drained everything."""
    member.tell("rebalance", reason)
    if not member.cooperative:
        member.end_all(End.REVOKED, member.drain_ms(now), reason)
    member.want_join(reason)


def lose_membership(member: MembershipState, cause: str, *, forget: bool = False) -> None:
    """The broker goes on without this member, or may do so: cancel everything, and join anew.

    `forget`: the broker does not know the member id any more.
    """
    if forget:
        member.member_id = ""
    member.abandon()
    member.generation, member.leads = -1, False
    member.session.end()
    member.phase = Phase.OUT
    if member.has_generation or member.draining:
        member.tell("lost", cause)
        member.end_all(End.LOST, 0, cause)
    member.want_join(cause)


def fail(member: MembershipState, error: GroupError) -> None:
    """The membership is over, and the application is to hear why."""
    if member.phase is Phase.LEFT:
        return
    member.abandon()
    if member.has_generation or member.draining:
        member.end_all(End.LOST, 0, str(error))
    be_over(member)
    member.actions.append(Raise(error))


def be_over(member: MembershipState) -> None:
    """Nothing is due any more."""
    member.phase = Phase.LEFT
    member.rejoin_because = member.retry_at = None
    member.session.end()
