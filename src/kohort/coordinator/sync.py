"""SyncGroup (API 14): the leader's assignment makes the generation stable.

The leader's request turns the round into one GroupMetadata record. The replay of that record moves
the group to Stable, live and when loading. SyncGroup requests of followers are parked until then,
and later ones get their response at once.

A member that never sends its SyncGroup is removed when the pending-sync timer fires, also in
Stable.

Source: classicGroupSync… of Kafka's GroupMetadataManager; KIP-559 (protocol type and name).
"""

from kohort.coordinator.classic import Group, MemberSession, State
from kohort.coordinator.journal import Cause
from kohort.coordinator.rebalance import propagate_sync_error, rebalance, remove_member
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    encoded_size,
)
from kohort.coordinator.requests import SyncGroup
from kohort.coordinator.responses import SyncGroupResponse
from kohort.coordinator.result import SyncPhaseEnds
from kohort.coordinator.rounds import Round
from kohort.coordinator.step import Step
from kohort.errors import ErrorCode

PROTOCOL_REQUIRED_SINCE = 5
_BATCH_OVERHEAD_BYTES = 128
"""Maximum size of batch header, record header and key of a group with a short id."""


def sync_group(group: Group | None, request: SyncGroup, step: Step) -> None:
    """Decide one SyncGroup."""
    error = validate_sync(group, request)
    if group is None or error is not ErrorCode.none:
        step.reply(request.on_response, SyncGroupResponse(error=error))
        return
    group.unsynced.discard(request.member_id)
    if not group.unsynced:
        group.unsynced = set()  # a new set: an emptied one would keep its memory
        step.cancel_timer(SyncPhaseEnds(group.id))
    if group.round is None:
        assert group.logged is not None
        assignment = group.logged.members[request.member_id].assignment
        step.reply(request.on_response, _assigned(group.logged.value, assignment))
        return
    _park_sync(group.round, request, step)
    if request.member_id == group.round.leader:
        _complete_sync(group, group.round, request, step)


def validate_sync(group: Group | None, request: SyncGroup) -> ErrorCode:
    """Check a SyncGroup in Kafka's order: protocol fields, member, generation, protocol, state."""
    named = request.protocol_type is not None and request.protocol_name is not None
    if request.version >= PROTOCOL_REQUIRED_SINCE and not named:
        return ErrorCode.inconsistent_group_protocol
    if not request.group:
        return ErrorCode.invalid_group_id
    if group is None:
        return ErrorCode.unknown_member_id
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not ErrorCode.none:
        return error
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.inconsistent_group_protocol
    return (
        ErrorCode.rebalance_in_progress
        if group.state is State.PREPARING_REBALANCE
        else ErrorCode.none
    )


def sync_phase_ends(group: Group, step: Step) -> None:
    """The pending-sync timer fired: remove the members without a SyncGroup, and rebalance."""
    if not group.unsynced:
        return
    silent = sorted(group.unsynced)
    causes = [
        Cause("sync timeout", member_id, group.sessions[member_id].client_id)
        for member_id in silent
    ]
    for member_id in silent:
        remove_member(group, member_id, step)
    rebalance(group, causes, step)


def member_metadata(
    session: MemberSession, protocol: str | None, assignment: bytes
) -> MemberMetadata:
    """The logged metadata of a member."""
    return MemberMetadata(
        member_id=session.member_id,
        instance_id=session.instance_id,
        client_id=session.client_id,
        client_host=session.client_host,
        rebalance_timeout_ms=session.rebalance_timeout_ms,
        session_timeout_ms=session.session_timeout_ms,
        subscription=session.metadata(protocol),
        assignment=assignment,
    )


def _differs(requested: str | None, is_: str | None) -> bool:
    return requested is not None and is_ is not None and requested != is_


def _park_sync(round_: Round, request: SyncGroup, step: Step) -> None:
    older = round_.syncs.get(request.member_id)
    round_.syncs[request.member_id] = request.on_response
    if older is not None:
        # Kafka never responds to it. With this error the client rejoins and gets the same
        # generation.
        step.reply(older, SyncGroupResponse(error=ErrorCode.rebalance_in_progress))


def _complete_sync(group: Group, round_: Round, request: SyncGroup, step: Step) -> None:
    members = group.sessions
    assigned = {member: data for member, data in request.assignments if member in members}
    metadata = (session.metadata(round_.protocol) for session in members.values())
    if sum(map(len, (*assigned.values(), *metadata))) > step.config.max_record_bytes:
        _fail_sync(group, round_, request, step)  # before such large data are copied
        return
    value = GroupMetadataValue(
        round_.protocol_type,
        round_.generation,
        round_.protocol,
        round_.leader,
        step.timestamp,
        tuple(
            member_metadata(session, round_.protocol, bytes(assigned.get(session.member_id, b"")))
            for session in group.sessions.values()
        ),
    )
    if encoded_size(value) + _BATCH_OVERHEAD_BYTES > step.config.max_record_bytes:
        _fail_sync(group, round_, request, step)
        return
    step.record(GroupMetadataRecord(GroupMetadataKey(group.id), value))
    for member_id, on_response in round_.syncs.items():
        step.reply(on_response, _assigned(value, bytes(assigned.get(member_id, b""))))
    for session in group.sessions.values():
        step.restart_session(group, session)
    step.journal_rebalance(
        round_.ended(group.id, "stable", tuple(group.sessions), step.now, step.timestamp)
    )
    group.round = None


def _fail_sync(group: Group, round_: Round, request: SyncGroup, step: Step) -> None:
    """Refuse a round whose record is too large for the log.

    As in Kafka, all members get the error, and a round with less metadata can succeed.
    """
    propagate_sync_error(group, round_, ErrorCode.unknown_server_error, step)
    rebalance(group, [Cause("assignment too large for the log", request.member_id)], step)


def _assigned(value: GroupMetadataValue, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=value.protocol_type, protocol_name=value.protocol, assignment=assignment
    )
