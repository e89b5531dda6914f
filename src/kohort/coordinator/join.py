"""JoinGroup (API 11): admits members, and rebalances the group.

Kafka's order of checks: group id, session timeout, the group's existence, its size limit. The next
checks depend on the member id, new ("") or known; the protocols are checked before it is looked up.

Source: classicGroupJoin… of Kafka's GroupMetadataManager; KIP-394 (member-id handshake), KIP-345
(static members), KIP-800 (reasons).
"""

from dataclasses import replace

from kohort.coordinator.classic import Group, MemberSession, State
from kohort.coordinator.journal import Cause
from kohort.coordinator.pending_members import PendingMember
from kohort.coordinator.rebalance import (
    current_generation,
    joined_members,
    maybe_complete_join,
    rebalance,
    remove_member,
)
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, too_long
from kohort.coordinator.requests import JoinGroup
from kohort.coordinator.responses import JoinGroupResponse
from kohort.coordinator.result import SessionExpires
from kohort.coordinator.step import Step
from kohort.coordinator.sync import member_metadata
from kohort.errors import ErrorCode
from kohort.types import Instant

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
_NO_CAUSE = frozenset({"leader rejoined", "metadata changed"})
"""Causes that a rejoin in the join phase does not have: the join phase waits for it."""


def validate_join(request: JoinGroup, step: Step) -> ErrorCode:
    """Check a JoinGroup without its group.

    Returns INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST or no error.
    """
    if not request.group or too_long(request.group):
        return ErrorCode.invalid_group_id
    if (
        not step.config.min_session_timeout_ms
        <= request.session_timeout_ms
        <= step.config.max_session_timeout_ms
    ):
        return ErrorCode.invalid_session_timeout
    names = [name for name, _ in request.protocols]
    prefix = request.client_id if request.instance_id is None else request.instance_id
    if too_long(request.protocol_type, *names) or too_long(prefix, spare=len(request.fresh_id) + 1):
        # cannot be logged; Kafka returns UNKNOWN_SERVER_ERROR
        return ErrorCode.invalid_request
    if any(len(metadata) > step.config.max_record_bytes for _, metadata in request.protocols):
        # cannot be logged either; Kafka admits it, and every SyncGroup of the group fails
        return ErrorCode.invalid_request
    return ErrorCode.none


def join_group(group: Group, request: JoinGroup, step: Step) -> None:
    """Decide one JoinGroup in an existing or new group."""
    if not _has_room(group, request.member_id, step):
        remove_member(group, request.member_id, step)
        step.reply(request.on_response, JoinGroupResponse(error=ErrorCode.group_max_size_reached))
        maybe_complete_join(group, step)
    elif not group.supports_protocols(
        request.protocol_type, [name for name, _ in request.protocols]
    ):
        _refuse(request, ErrorCode.inconsistent_group_protocol, step)
    elif not request.member_id:
        _join_new_member(group, request, step)
    elif request.member_id in group.pending:
        _join_pending_member(group, request, step)
    else:
        _join_known_member(group, request, step)


def _refuse(request: JoinGroup, error: ErrorCode, step: Step) -> None:
    step.reply(request.on_response, JoinGroupResponse(error=error, member_id=request.member_id))


def _has_room(group: Group, member_id: str, step: Step) -> bool:
    """Whether the group has room for the member; in PreparingRebalance the first to join win.

    Kafka's acceptJoiningMember.
    """
    round_ = group.round
    if group.state is State.EMPTY:
        return True
    if round_ is not None and round_.joining:
        return member_id in round_.joins or len(round_.joins) < step.config.max_size
    return member_id in group.sessions or len(group.sessions) < step.config.max_size


# --- new members ---


def _join_new_member(group: Group, request: JoinGroup, step: Step) -> None:
    if request.instance_id is not None:
        member_id_of_instance = group.instances.get(request.instance_id)
        member_id = f"{request.instance_id}-{request.fresh_id}"
        if member_id_of_instance is None:
            _add_member(group, request, member_id, step)
        else:
            _replace_static_member(
                group, request, group.sessions[member_id_of_instance], member_id, step
            )
        return
    member_id = f"{request.client_id}-{request.fresh_id}"
    if request.version >= MEMBER_ID_REQUIRED_SINCE:
        _hand_out_member_id(group, request, member_id, step)
    else:
        _add_member(group, request, member_id, step)


def _hand_out_member_id(group: Group, request: JoinGroup, member_id: str, step: Step) -> None:
    timer = Instant(step.now + request.session_timeout_ms)
    group.pending.add(PendingMember(member_id, request.client_id, request.connection, timer))
    step.set_timer(SessionExpires(group.id, member_id), request.session_timeout_ms)
    step.reply(
        request.on_response,
        JoinGroupResponse(error=ErrorCode.member_id_required, member_id=member_id),
    )


def _join_pending_member(group: Group, request: JoinGroup, step: Step) -> None:
    if request.instance_id is not None:
        # The id was assigned without an instance id. (Kafka returns UNKNOWN_SERVER_ERROR.)
        _refuse(request, ErrorCode.unknown_member_id, step)
        return
    pending = group.pending.pop(request.member_id)
    assert pending is not None
    # The id's timer becomes the member's: it fires early, and re-arms itself.
    _add_member(group, request, pending.member_id, step, timer=pending.timer)


def _add_member(
    group: Group, request: JoinGroup, member_id: str, step: Step, *, timer: Instant | None = None
) -> None:
    session = MemberSession(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        timer=timer,
        is_new=True,
    )
    group.add_session(session)
    step.restart_session(group, session, step.config.new_member_join_timeout_ms)
    if group.round is not None and group.round.initial is not None:
        group.round.initial.new_member_added = True
    _rebalance(group, session, request, "joined", step)


def _replace_static_member(
    group: Group, request: JoinGroup, old: MemberSession, member_id: str, step: Step
) -> None:
    """A static member returned: its new id replaces the old one, which is fenced."""
    leader = group.leader
    session = replace(old, member_id=member_id, timer=None, is_new=False)
    remove_member(group, old.member_id, step, ErrorCode.fenced_instance_id)
    group.add_session(session)
    if group.round is not None and leader == old.member_id:
        group.round.leader = member_id
    _update_member(group, session, request)
    step.restart_session(group, session)
    if group.state is State.STABLE and group.select_protocol() == group.protocol:
        _keep_generation(group, request, old.member_id, session, step)
    else:
        _rebalance(group, session, request, "replaced", step)


def _keep_generation(
    group: Group, request: JoinGroup, old_id: str, session: MemberSession, step: Step
) -> None:
    """Log the new id instead of the old one, without a rebalance."""
    assert group.logged is not None
    value = group.logged.value
    old_leader = value.leader
    leads = old_leader == old_id
    skips = leads and request.version >= SKIP_ASSIGNMENT_SINCE
    renewed = value._replace(
        leader=session.member_id if leads else old_leader,
        members=tuple(
            member_metadata(session, value.protocol, m.assignment) if m.member_id == old_id else m
            for m in value.members
        ),
    )
    step.record(GroupMetadataRecord(GroupMetadataKey(group.id), renewed))
    step.reply(
        request.on_response,
        JoinGroupResponse(
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol_name=value.protocol,
            # Before v9 no response can skip the assignment, so it names another leader instead.
            leader=(renewed.leader if request.version >= SKIP_ASSIGNMENT_SINCE else old_leader)
            or "",
            skip_assignment=skips,
            member_id=session.member_id,
            members=joined_members(group, value.protocol) if skips else (),
        ),
    )


# --- known members ---


def _join_known_member(group: Group, request: JoinGroup, step: Step) -> None:
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not ErrorCode.none:
        _refuse(request, error, step)
        return
    session = group.sessions[request.member_id]
    changed = session.protocols != request.protocols
    state = group.state
    leads = request.member_id == group.leader
    if state is State.COMPLETING_REBALANCE and not changed:
        # The response to its first join was lost.
        members = joined_members(group, group.protocol) if leads else ()
        step.reply(request.on_response, current_generation(group, request.member_id, members))
    elif state is State.STABLE and not changed and not leads:
        step.reply(request.on_response, current_generation(group, request.member_id))
    else:
        # A leader that rejoins announces a change that its metadata does not show, such as a
        # change of topics.
        _update_member(group, session, request)
        cause = "leader rejoined" if leads and not changed else "metadata changed"
        _rebalance(group, session, request, cause, step)


def _update_member(group: Group, session: MemberSession, request: JoinGroup) -> None:
    group.update_protocols(session, request.protocols)
    session.session_timeout_ms = request.session_timeout_ms
    session.rebalance_timeout_ms = request.rebalance_timeout_ms


def _rebalance(
    group: Group, session: MemberSession, request: JoinGroup, cause: str, step: Step
) -> None:
    """Park the member's join in the joining round, or in a new one."""
    is_expected = cause in _NO_CAUSE and group.state is State.PREPARING_REBALANCE
    causes = (
        []
        if is_expected
        else [Cause(cause, session.member_id, session.client_id, request.reason or "")]
    )
    join = (session.member_id, request.on_response)
    rebalance(group, causes, step, join=join, protocol_type=request.protocol_type)
