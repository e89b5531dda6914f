"""Heartbeat (API 12), LeaveGroup (API 13), and the sessions of members.

Source: classicGroupHeartbeat…, classicGroupLeave… and expireClassicGroupMemberHeartbeat of Kafka's
GroupMetadataManager.
"""

from kohort.coordinator.classic import ClassicGroup, Group, MemberSession, State
from kohort.coordinator.journal import Cause
from kohort.coordinator.rebalance import maybe_complete_join, rebalance, remove_member
from kohort.coordinator.records import MemberMetadata
from kohort.coordinator.requests import Heartbeat, LeaveGroup, LeavingMember
from kohort.coordinator.responses import NONE, HeartbeatResponse, LeaveGroupResponse, LeftMember
from kohort.coordinator.result import Result, SessionExpires
from kohort.coordinator.step import Step
from kohort.errors import ErrorCode
from kohort.types import Instant, Reply


def heartbeat(group: Group | None, request: Heartbeat, now: Instant) -> Result:
    """Decide one Heartbeat request."""
    error = keep_alive(
        group, request.group, request.generation, request.member_id, request.instance_id, now
    )
    return Result(replies=(Reply(request.on_response, HeartbeatResponse(error)),))


def keep_alive(
    group: Group | None,
    group_id: str,
    generation: int,
    member_id: str,
    instance_id: str | None,
    now: Instant,
) -> ErrorCode:
    """The error of a Heartbeat response; moves the deadline of the session if there is none.

    It sets no timer: a timer that fires early re-arms itself.
    """
    if group is None:
        return ErrorCode.unknown_member_id if group_id else ErrorCode.invalid_group_id
    session = group.sessions.get(member_id)
    if session is None or (
        instance_id is not None and group.instances.get(instance_id) != member_id
    ):
        return group.validate_member(member_id, instance_id)
    if generation != group.generation:
        return ErrorCode.illegal_generation
    session.deadline = Instant(now + session.session_timeout_ms)
    joining = group.round is not None and group.round.joining
    return ErrorCode.rebalance_in_progress if joining else NONE


def leave_group(group: Group | None, request: LeaveGroup, step: Step) -> None:
    """Decide one LeaveGroup: remove all its members, then rebalance at most once."""
    if not request.group:
        step.reply(request.on_response, LeaveGroupResponse(error=ErrorCode.invalid_group_id))
        return
    causes: list[Cause] = []
    responses = tuple(_leave(group, leaving, causes, step) for leaving in request.members)
    if group is not None and causes and group.state is not State.EMPTY:
        # As in Kafka, a leaving pending id also rebalances a stable group.
        rebalance(group, causes, step)
    step.reply(request.on_response, LeaveGroupResponse(members=responses))


def session_expires(group: Group, member_id: str, step: Step) -> None:
    """The session timer of a member or a pending id fired."""
    if group.pending.pop(member_id) is not None:
        maybe_complete_join(group, step)
        return
    session = group.sessions.get(member_id)
    if session is None:
        return
    session.timer = None
    if session.deadline > step.now:
        step.arm(group, session)
    elif session.is_new or not _is_parked(group, member_id):
        reason = f"not heard of for {session.session_timeout_ms} ms"
        remove_member(group, member_id, step)
        rebalance(group, [Cause("expired", member_id, session.client_id, reason)], step)


def _is_parked(group: Group, member_id: str) -> bool:
    """Whether the member has a parked request.

    Such a member counts as alive, and the response restarts its session.
    """
    round_ = group.round
    return round_ is not None and (member_id in round_.joins or member_id in round_.syncs)


def _leave(
    group: Group | None, leaving: LeavingMember, causes: list[Cause], step: Step
) -> LeftMember:
    def result(error: ErrorCode) -> LeftMember:
        return LeftMember(leaving.member_id, leaving.instance_id, error)

    if group is None:
        return result(ErrorCode.unknown_member_id)
    member_id = leaving.member_id
    pending = group.pending.pop(member_id)
    if pending is not None:
        step.cancel_timer(SessionExpires(group.id, member_id))
        causes.append(Cause("left", member_id, pending.client_id, leaving.reason or ""))
        return result(ErrorCode.none)
    if not member_id and leaving.instance_id is not None:
        # Administrators remove a static member by its instance id alone (KIP-345).
        member_id = group.instances.get(leaving.instance_id, "")
    error = group.validate_member(member_id, leaving.instance_id)
    if error is ErrorCode.none:
        causes.append(
            Cause("left", member_id, group.sessions[member_id].client_id, leaving.reason or "")
        )
        remove_member(group, member_id, step)
    return result(error)


def restore_sessions(group: Group, logged: ClassicGroup, step: Step) -> None:
    """Give the members of a loaded group fresh sessions."""
    for member in logged.members.values():
        session = _session(member, logged.value.protocol)
        group.add_session(session)
        step.restart_session(group, session)


def _session(member: MemberMetadata, protocol: str | None) -> MemberSession:
    """A member from the log, which has only the chosen one of its protocols."""
    return MemberSession(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=((protocol or "", member.subscription),),
    )
