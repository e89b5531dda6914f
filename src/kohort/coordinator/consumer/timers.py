"""The timers of a consumer group's members.

| timer | length | restarted by |
|---|---|---|
| session | the group's session timeout | every accepted heartbeat |
| revocation | the member's rebalance timeout | a record with UNREVOKED_PARTITIONS |

When one of them expires, the member is removed. A heartbeat moves the deadline of its session. The
timer that fires early arms itself again.
"""

from kohort.coordinator.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerSession,
    MemberState,
)
from kohort.coordinator.result import RevocationExpires, SessionExpires
from kohort.coordinator.step import Step
from kohort.types import Instant


def restart_session(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Expire the member one session timeout from now."""
    timeout = step.config.consumer_group(group.id).session_timeout_ms
    deadline = Instant(step.now + timeout)
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = ConsumerSession(deadline)
    session.deadline = deadline
    if session.timer is None or session.timer > deadline:
        arm(group, member_id, session, step)


def arm(group: ConsumerGroup, member_id: str, session: ConsumerSession, step: Step) -> None:
    """Set the timer of the session to its deadline."""
    session.timer = session.deadline
    step.set_timer(SessionExpires(group.id, member_id), session.deadline - step.now)


def restart_revocation(group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
    """Set the timer of a member whose assignment has changed, or forget it; it has a session."""
    session = group.sessions[member.member_id]
    key = RevocationExpires(group.id, member.member_id)
    if member.current.state == MemberState.UNREVOKED_PARTITIONS:
        session.revoking_at = member.current.epoch
        step.set_timer(key, member.metadata.rebalance_timeout_ms)
    elif session.revoking_at is not None:
        session.revoking_at = None
        step.cancel_timer(key)


def forget(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Cancel the timers of a member that is removed."""
    session = group.sessions.pop(member_id, None)
    if session is None:
        return
    step.cancel_timer(SessionExpires(group.id, member_id))
    if session.revoking_at is not None:
        step.cancel_timer(RevocationExpires(group.id, member_id))


def restore_timers(group: ConsumerGroup, step: Step) -> None:
    """Start all timers anew, as after loading."""
    for member in group.members.values():
        restart_session(group, member.member_id, step)
        restart_revocation(group, member, step)
