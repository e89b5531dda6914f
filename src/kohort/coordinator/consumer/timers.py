"""The timers of a consumer group's members.

| timer | length | restarted by |
|---|---|---|
| session | the group's session timeout | every accepted heartbeat |
| session of a classic member | its own session timeout | Heartbeat, JoinGroup, SyncGroup |
| revocation | the member's rebalance timeout | a record with UNREVOKED_PARTITIONS |
| join of a classic member | the same | its first REBALANCE_IN_PROGRESS; its JoinGroup ends it |
| sync of a classic member | the same | its JoinGroup; its SyncGroup ends it |

When a timer expires, the member is removed. A heartbeat only moves the deadline of its session; a
timer that fires early re-arms itself.
"""

from kohort.coordinator.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerSession,
    MemberState,
)
from kohort.coordinator.result import (
    MemberJoinExpires,
    MemberSyncExpires,
    RevocationExpires,
    SessionExpires,
)
from kohort.coordinator.step import Step
from kohort.types import Instant


def session_timeout_ms(group: ConsumerGroup, member: ConsumerMember, step: Step) -> int:
    """The group's session timeout, or a classic member's own."""
    classic = member.metadata.classic
    if classic is None:
        return step.config.consumer_group(group.id).session_timeout_ms
    return classic.session_timeout_ms


def restart_session(group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
    """Expire the member after its session timeout from now."""
    deadline = Instant(step.now + session_timeout_ms(group, member, step))
    session = group.sessions.get(member.member_id)
    if session is None:
        session = group.sessions[member.member_id] = ConsumerSession(deadline)
    session.deadline = deadline
    if session.timer is None or session.timer > deadline:
        arm(group, member.member_id, session, step)


def arm(group: ConsumerGroup, member_id: str, session: ConsumerSession, step: Step) -> None:
    """Set the timer of the session to its deadline."""
    session.timer = session.deadline
    step.set_timer(SessionExpires(group.id, member_id), session.deadline - step.now)


def restart_revocation(group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
    """Set or cancel the revocation timer after a change of assignment. The member has a session."""
    session = group.sessions[member.member_id]
    key = RevocationExpires(group.id, member.member_id)
    if member.current.state == MemberState.UNREVOKED_PARTITIONS:
        session.revoking_at = member.current.epoch
        step.set_timer(key, member.metadata.rebalance_timeout_ms)
    elif session.revoking_at is not None:
        session.revoking_at = None
        step.cancel_timer(key)


def await_join(group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
    """Remove the classic member unless it rejoins within its rebalance timeout."""
    session = group.sessions[member.member_id]
    if not session.has_to_join:
        session.has_to_join = True
        key = MemberJoinExpires(group.id, member.member_id)
        step.set_timer(key, member.metadata.rebalance_timeout_ms)


def await_sync(group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
    """Remove the classic member unless it syncs within its rebalance timeout."""
    end_classic_timers(group, member.member_id, step)
    group.sessions[member.member_id].has_to_sync = True
    key = MemberSyncExpires(group.id, member.member_id)
    step.set_timer(key, member.metadata.rebalance_timeout_ms)


def end_sync(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Cancel the sync timer: the classic member has synced."""
    session = group.sessions[member_id]
    if session.has_to_sync:
        session.has_to_sync = False
        step.cancel_timer(MemberSyncExpires(group.id, member_id))


def end_classic_timers(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Cancel the join and sync timers of the member, which has a session."""
    session = group.sessions[member_id]
    if session.has_to_join:
        session.has_to_join = False
        step.cancel_timer(MemberJoinExpires(group.id, member_id))
    end_sync(group, member_id, step)


def forget(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Cancel the timers of a removed member."""
    session = group.sessions.get(member_id)
    if session is None:
        return
    step.cancel_timer(SessionExpires(group.id, member_id))
    if session.revoking_at is not None:
        step.cancel_timer(RevocationExpires(group.id, member_id))
    end_classic_timers(group, member_id, step)
    del group.sessions[member_id]


def restore_members(group: ConsumerGroup, step: Step) -> None:
    """Restart all sessions and timers after loading.

    The last responses of the previous coordinator may be lost.
    """
    for member in group.members.values():
        restart_session(group, member, step)
        group.sessions[member.member_id].is_told = False
        restart_revocation(group, member, step)
