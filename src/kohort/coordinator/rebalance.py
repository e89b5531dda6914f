"""A rebalance, from its cause to a new generation or to an empty group.

`rebalance` opens a round, or adds a cause to it. `maybe_complete_join` ends its join phase once
every member has rejoined and no pending id is awaited. `complete_join` ends it in any case; the
join timer calls it. The sync phase ends in `sync.py`.

Two kinds of members are exceptions. A *static* member that has not rejoined stays until its session
ends. A *new* member cannot send heartbeats before the response to its first join, so it has
five minutes instead of its session timeout.

Source: the classicGroup functions of Kafka's GroupMetadataManager.
"""

from collections.abc import Iterable, Sequence

from kohort.coordinator.classic import Group, State
from kohort.coordinator.journal import Cause
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.responses import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.coordinator.rounds import InitialDelay, Round
from kohort.coordinator.step import Step
from kohort.errors import ErrorCode
from kohort.types import OnResponse


def rebalance(
    group: Group,
    causes: Sequence[Cause],
    step: Step,
    *,
    join: tuple[str, OnResponse] | None = None,
    protocol_type: str = "",
) -> None:
    """Rebalance the group for `causes`: open a round, or continue the joining one.

    `join` is the (member id, request) of the JoinGroup that caused it, to be parked.
    `protocol_type` is the joining member's, for an empty group. An awaited join has no cause.
    """
    opens = group.round is None or not group.round.joining
    round_ = _open_round(group, protocol_type, step) if opens else group.round
    assert round_ is not None
    round_.note(causes)
    if join is not None:
        _park_join(round_, *join, step)
    if opens:
        _start_join_phase(group, round_, step)
    else:
        maybe_complete_join(group, step)


def maybe_complete_join(group: Group, step: Step) -> None:
    """End the join phase if no member or id is awaited.

    The initial delay is never shortened.
    """
    round_ = group.round
    if (
        round_ is not None
        and round_.joining
        and round_.initial is None
        and _all_joined(group, round_)
    ):
        complete_join(group, step)


def join_phase_ends(group: Group, step: Step) -> None:
    """The join timer fired."""
    round_ = group.round
    if round_ is None or not round_.joining:
        return
    initial = round_.initial
    if initial is not None and initial.new_member_added and initial.remaining_ms > 0:
        delay_ms = min(step.config.initial_rebalance_delay_ms, initial.remaining_ms)
        round_.initial = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        step.set_timer(JoinPhaseEnds(group.id), delay_ms)
    else:
        complete_join(group, step)


def complete_join(group: Group, step: Step) -> None:
    """End the join phase: a new generation of the joined members, or an empty group."""
    round_ = group.round
    assert round_ is not None
    _remove_laggards(group, round_, step)
    if group.sessions and not round_.joins:
        # Only static members that have not rejoined: wait until their sessions end.
        step.set_timer(JoinPhaseEnds(group.id), group.rebalance_timeout_ms)
        return
    step.cancel_timer(JoinPhaseEnds(group.id))
    round_.generation += 1
    round_.joined = step.now
    if group.sessions:
        _start_sync_phase(group, round_, step)
    else:
        _leave_empty(group, round_, step)


def remove_member(
    group: Group, member_id: str, step: Step, error: ErrorCode = ErrorCode.unknown_member_id
) -> None:
    """Remove a member; its parked request gets `error`. The caller then rebalances."""
    if group.remove_session(member_id) is None:
        return
    step.cancel_timer(SessionExpires(group.id, member_id))
    if group.round is not None:
        _drop_from_round(group.round, member_id, step, error)


def propagate_sync_error(group: Group, round_: Round, error: ErrorCode, step: Step) -> None:
    """Respond to every parked SyncGroup with `error`.

    Restarts the sessions of these members: their timers may have fired without effect while the
    requests were parked.
    """
    for member_id, on_response in round_.syncs.items():
        step.reply(on_response, SyncGroupResponse(error=error))
        step.restart_session(group, group.sessions[member_id])
    round_.syncs.clear()


def joined_members(group: Group, protocol: str | None) -> tuple[JoinedMember, ...]:
    """The members for the leader's JoinGroup response."""
    return tuple(
        JoinedMember(
            member_id=session.member_id,
            instance_id=session.instance_id,
            metadata=session.metadata(protocol),
        )
        for session in group.sessions.values()
    )


def _open_round(group: Group, protocol_type: str, step: Step) -> Round:
    delay_ms = step.config.initial_rebalance_delay_ms
    empty = group.state is State.EMPTY
    opened = Round(
        generation=group.generation,
        protocol_type=protocol_type if empty else group.protocol_type,
        leader=group.leader if group.leader in group.sessions else None,
        protocol=group.protocol,
        started=step.now,
        initial=InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        if empty
        else None,
    )
    if group.round is not None:
        propagate_sync_error(group, group.round, ErrorCode.rebalance_in_progress, step)
        step.journal_rebalance(
            group.round.ended(
                group.id, "disturbed", tuple(group.sessions), step.now, step.timestamp
            )
        )
    group.unsynced.clear()
    step.cancel_timer(SyncPhaseEnds(group.id))
    group.round = opened
    return opened


def _start_join_phase(group: Group, round_: Round, step: Step) -> None:
    if round_.initial is not None:
        step.set_timer(JoinPhaseEnds(group.id), round_.initial.delay_ms)
    elif _all_joined(group, round_):
        complete_join(group, step)
    else:
        step.set_timer(JoinPhaseEnds(group.id), group.rebalance_timeout_ms)


def _park_join(round_: Round, member_id: str, on_response: OnResponse, step: Step) -> None:
    older = round_.joins.pop(member_id, None)
    round_.joins[member_id] = on_response
    if older is not None:
        # Kafka never responds to it. This error tells the member that a join phase has begun.
        step.reply(
            older, JoinGroupResponse(error=ErrorCode.rebalance_in_progress, member_id=member_id)
        )


def _all_joined(group: Group, round_: Round) -> bool:
    return len(round_.joins) == len(group.sessions) and not group.pending.any_awaited


def _remove_laggards(group: Group, round_: Round, step: Step) -> None:
    absent = [
        session for session in group.sessions.values() if session.member_id not in round_.joins
    ]
    round_.awaited = tuple(session.member_id for session in absent)
    for session in absent:
        if session.instance_id is None:
            remove_member(group, session.member_id, step)


def _start_sync_phase(group: Group, round_: Round, step: Step) -> None:
    if round_.leader not in round_.joins:
        round_.leader = next(iter(round_.joins))
    round_.protocol = group.select_protocol()
    _respond_to_joins(group, round_, step)
    for session in group.sessions.values():
        session.is_new = False
        step.restart_session(group, session)
    group.unsynced = set(group.sessions)
    step.set_timer(SyncPhaseEnds(group.id), group.rebalance_timeout_ms)


def _respond_to_joins(group: Group, round_: Round, step: Step) -> None:
    for member_id, on_response in round_.joins.items():
        members = joined_members(group, round_.protocol) if member_id == round_.leader else ()
        step.reply(on_response, current_generation(group, member_id, members))
    round_.joins.clear()


def current_generation(
    group: Group, member_id: str, members: Iterable[JoinedMember] = ()
) -> JoinGroupResponse:
    """The successful response to a JoinGroup of this member."""
    return JoinGroupResponse(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=tuple(members),
    )


def _leave_empty(group: Group, round_: Round, step: Step) -> None:
    value = GroupMetadataValue(
        round_.protocol_type, round_.generation, None, None, step.timestamp, ()
    )
    step.record(GroupMetadataRecord(GroupMetadataKey(group.id), value))
    step.journal_rebalance(round_.ended(group.id, "empty", (), step.now, step.timestamp))
    group.round = None


def _drop_from_round(round_: Round, member_id: str, step: Step, error: ErrorCode) -> None:
    join = round_.joins.pop(member_id, None)
    if join is not None:
        fenced = error is ErrorCode.fenced_instance_id
        step.reply(join, JoinGroupResponse(error=error, member_id=member_id if fenced else ""))
    sync = round_.syncs.pop(member_id, None)
    if sync is not None:
        # Kafka never responds to it, so that the client waits for its request timeout.
        step.reply(sync, SyncGroupResponse(error=error))
    if round_.leader == member_id:
        round_.leader = None
