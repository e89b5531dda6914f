"""DescribeGroups (API 15), ListGroups (API 16) and DeleteGroups (API 42).

Source: ClassicGroup.asDescribedGroup, validateDeleteGroup and asListedGroup of Kafka.
"""

from collections.abc import Iterable
from itertools import chain

from kohort.coordinator.classic import Group, MemberSession, State
from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer_records import (
    ConsumerGroupMetadataRecord,
    GroupKey,
    PartitionMetadataRecord,
    TargetAssignmentMetadataRecord,
)
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.offsets import offset_tombstone
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord
from kohort.coordinator.requests import (
    TOMBSTONE_CHUNK,
    DeleteGroup,
    DescribeGroup,
    DiscardOffsets,
    ListGroups,
)
from kohort.coordinator.responses import (
    DeleteGroupResponse,
    DescribedMember,
    DescribeGroupResponse,
    ListedGroup,
    ListGroupsResponse,
)
from kohort.coordinator.step import Step
from kohort.errors import ErrorCode

GROUP_ID_NOT_FOUND_SINCE = 6


def describe_group(group: AnyGroup | None, request: DescribeGroup) -> DescribeGroupResponse:
    """Describe a group; metadata of members only while it is Stable.

    The members' assignments are included in every state.
    """
    if not isinstance(group, Group):
        newer = request.version >= GROUP_ID_NOT_FOUND_SINCE
        why = "not found" if group is None else "is not a classic group"
        return DescribeGroupResponse(
            error=ErrorCode.group_id_not_found if newer else ErrorCode.none,
            error_message=f"Group {request.group} {why}." if newer else None,
            group=request.group,
            state=State.DEAD,
        )
    stable = group.state is State.STABLE
    return DescribeGroupResponse(
        group=group.id,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol=(group.protocol or "") if stable else "",
        members=tuple(_described(group, session, stable) for session in group.sessions.values()),
    )


def list_groups(groups: Iterable[AnyGroup], request: ListGroups) -> ListGroupsResponse:
    """List the groups in the requested states and of the requested types, or all of them.

    Names of states and types are case-insensitive.
    """
    states = {state.lower() for state in request.states}
    types = {type_.lower() for type_ in request.types}
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(group.id, group.protocol_type, group.state, group.TYPE)
            for group in groups
            if (not types or group.TYPE in types) and (not states or group.state.lower() in states)
        )
    )


def delete_group(group: AnyGroup | None, request: DeleteGroup, step: Step) -> None:
    """Delete an Empty group with all its offsets and pending member ids."""
    if group is None:
        error = ErrorCode.group_id_not_found
    elif not group.is_empty:
        error = ErrorCode.non_empty_group
    else:
        error = ErrorCode.none
        if len(group.offsets) + len(group.offsets.pending or ()) > TOMBSTONE_CHUNK:
            _delete_large_group(group, request, step)
            return
        tombstones(group, step)
    step.reply(request.on_response, DeleteGroupResponse(error))


def _delete_large_group(group: AnyGroup, request: DeleteGroup, step: Step) -> None:
    """Delete the group at once, and its offsets in slices.

    A group that is created under the same id meanwhile has none of these offsets.
    """
    offsets, group.offsets = group.offsets, CommittedOffsets()
    tombstones(group, step)
    step.continue_with(
        DiscardOffsets(on_response=request.on_response, group=group.id, offsets=offsets)
    )


def discard_offsets(group: AnyGroup | None, event: DiscardOffsets, step: Step) -> None:
    """Write some of the tombstones; `group` was created since, if not None."""
    for partition in event.offsets.remove_some(TOMBSTONE_CHUNK):
        if group is None or partition not in group.offsets:
            step.record(offset_tombstone(event.group, partition))
    if event.offsets or event.offsets.pending:
        step.continue_with(event)
    else:
        step.reply(event.on_response, DeleteGroupResponse())


def tombstones(group: AnyGroup, step: Step) -> None:
    """Delete the group: tombstones for all offsets, including pending ones, then the group."""
    for partition in chain(group.offsets, group.offsets.only_pending()):
        step.record(offset_tombstone(group.id, partition))
    group_tombstones(group, step)


def group_tombstones(group: AnyGroup, step: Step) -> None:
    """Delete the group, and keep its offsets."""
    if isinstance(group, ConsumerGroup):
        key = GroupKey(group.id)
        step.record(TargetAssignmentMetadataRecord(key, None))
        step.record(PartitionMetadataRecord(key, None))
        step.record(ConsumerGroupMetadataRecord(key, None))
    else:
        step.record(GroupMetadataRecord(GroupMetadataKey(group.id), None))


def _described(group: Group, session: MemberSession, stable: bool) -> DescribedMember:
    synced = None if group.logged is None else group.logged.members.get(session.member_id)
    return DescribedMember(
        member_id=session.member_id,
        instance_id=session.instance_id,
        client_id=session.client_id,
        client_host=session.client_host,
        metadata=session.metadata(group.protocol) if stable else b"",
        assignment=b"" if synced is None else synced.assignment,
    )
