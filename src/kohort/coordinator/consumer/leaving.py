"""Members that leave a consumer group, and static members that return.

| event | records |
|---|---|
| epoch -1, LeaveGroup, expiry | tombstones of the member; bumped group epoch |
| the same, last member | also the assignment epoch, equal to the group epoch |
| epoch -2 of a static member | its assignment at epoch -2, without partitions yet to revoke |
| its instance id returns | tombstones of the old member; a new member with its assignment |

Source: consumerGroupLeave, consumerGroupFenceMembers and replaceMember of Kafka.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kohort.coordinator.consumer import rebalancing, timers
from kohort.coordinator.consumer.downgrade import can_downgrade, downgrade
from kohort.coordinator.consumer.group import LEFT_STATIC, ConsumerGroup, ConsumerMember
from kohort.coordinator.consumer.subscribed_metadata import metadata_hash
from kohort.coordinator.consumer.target import assign_nothing
from kohort.coordinator.consumer_records import (
    AssignedPartitions,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    GroupKey,
    MemberKey,
    PartitionMetadataRecord,
    RegularExpressionKey,
    RegularExpressionRecord,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
)
from kohort.coordinator.journal import Cause
from kohort.coordinator.requests import ConsumerGroupHeartbeat, LeaveGroup, LeavingMember
from kohort.coordinator.responses import (
    ConsumerGroupHeartbeatResponse,
    LeaveGroupResponse,
    LeftMember,
)
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, topics: TopicsView, step: Step
) -> None:
    """Decide a heartbeat with epoch -1 or -2.

    Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    member = find_member(group, request.member_id, request.instance_id)
    if request.member_epoch == LEFT_STATIC:
        current = member.current._replace(
            epoch=LEFT_STATIC,
            assigned=_without_epochs(member.current.assigned),
            pending_revocation={},
        )
        step.record(CurrentMemberAssignmentRecord(MemberKey(group.id, member.member_id), current))
    else:
        remove_members(group, (member,), Cause("left", *_named(member)), topics, step)
    step.reply(
        request.on_response,
        ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        ),
    )


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with this member id and, if given, this instance id.

    Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        owner = group.instances.get(instance_id)
        if owner is None:
            raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
        if owner != member_id:
            raise KafkaError(
                ErrorCode.fenced_instance_id,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{owner}.",
            )
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            ErrorCode.unknown_member_id,
            f"Member {member_id} is not a member of group {group.id}.",
        )
    return member


def leave_group(group: ConsumerGroup, request: LeaveGroup, topics: TopicsView, step: Step) -> None:
    """Decide one LeaveGroup: remove all its members, with one bump of the group epoch."""
    removed: dict[str, ConsumerMember] = {}
    responses = tuple(_leaving(group, leaving, removed) for leaving in request.members)
    if removed:
        first = next(iter(removed.values()))
        reason = next((leaving.reason for leaving in request.members if leaving.reason), "") or ""
        cause = Cause("left", *_named(first), reason)
        remove_members(group, tuple(removed.values()), cause, topics, step)
    step.reply(request.on_response, LeaveGroupResponse(members=responses))


def _leaving(
    group: ConsumerGroup, leaving: LeavingMember, removed: dict[str, ConsumerMember]
) -> LeftMember:
    member_id, error = leaving.member_id, ErrorCode.none
    if not member_id and leaving.instance_id is not None:
        # Administrators remove a static member by its instance id alone (KIP-345).
        member_id = group.instances.get(leaving.instance_id, "")
    try:
        member = find_member(group, member_id, leaving.instance_id)
        if removed.setdefault(member_id, member) is not member:
            error = ErrorCode.unknown_member_id
    except KafkaError as refused:
        error = refused.code
    return LeftMember(leaving.member_id, leaving.instance_id, error)


def session_expires(group: ConsumerGroup, member_id: str, topics: TopicsView, step: Step) -> None:
    """The session timer of a member fired."""
    session = group.sessions.get(member_id)
    if session is None:
        return
    session.timer = None
    if session.deadline > step.now:
        timers.arm(group, member_id, session, step)
    else:
        member = group.members[member_id]
        timeout = timers.session_timeout_ms(group, member, step)
        cause = Cause("expired", *_named(member), f"not heard of for {timeout} ms")
        remove_members(group, (member,), cause, topics, step)


def revocation_expires(
    group: ConsumerGroup, member_id: str, topics: TopicsView, step: Step
) -> None:
    """A member did not revoke its partitions within its rebalance timeout."""
    session, member = group.sessions.get(member_id), group.members.get(member_id)
    if session is None or member is None:
        return
    epoch, session.revoking_at = session.revoking_at, None
    if epoch == member.current.epoch:
        timeout = member.metadata.rebalance_timeout_ms
        cause = Cause("expired", *_named(member), f"partitions not revoked for {timeout} ms")
        remove_members(group, (member,), cause, topics, step)


def _named(member: ConsumerMember) -> tuple[str, str]:
    """Member id and client id, for the journal."""
    return member.member_id, member.metadata.client_id


def classic_member_expires(
    group: ConsumerGroup, member_id: str, topics: TopicsView, step: Step
) -> None:
    """A classic member did not send the JoinGroup or SyncGroup within its rebalance timeout."""
    member = group.members.get(member_id)
    if member is not None:
        timeout = member.metadata.rebalance_timeout_ms
        cause = Cause("expired", *_named(member), f"did not join again for {timeout} ms")
        remove_members(group, (member,), cause, topics, step)


def remove_members(
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: Cause,
    topics: TopicsView,
    step: Step,
) -> None:
    """Delete the members' records, and bump the group epoch once.

    If only classic members are left, the group is downgraded instead.
    """
    if can_downgrade(group, members, step.config):
        downgrade(group, members, topics, step)
        return
    for member in members:
        timers.forget(group, member.member_id, step)
        delete_member(group, member.member_id, step)
    leaving_by_regex = Counter(member.metadata.regex for member in members)
    regex_members = {
        regex: count - leaving_by_regex[regex] for regex, count in group.regex_members.items()
    }
    forget_regexes(group, (regex for regex, count in regex_members.items() if not count), step)
    hash_ = _hash_without(group, members, regex_members, topics)
    epoch = bump_epoch(group, hash_, cause, topics, step)
    if len(members) == len(group.members):
        assign_nothing(group, epoch, step)
        rebalancing.end(group, epoch, "empty", (), step)


def _hash_without(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    regexes: Mapping[str, int],
    topics: TopicsView,
) -> int:
    """The metadata hash of the topics of the other members, who have these regular expressions."""
    names = group.subscriptions.after(member.metadata.topics for member in members)
    hash_ = group.current_hash(topics.version)
    if hash_ is not None and names is group.subscriptions.names and all(regexes.values()):
        return hash_
    resolved = [value.topics for regex, value in group.regexes.items() if regexes.get(regex)]
    return metadata_hash(set(names).union(*resolved) if resolved else names, topics)


def bump_epoch(
    group: ConsumerGroup, hash_: int, cause: Cause, topics: TopicsView, step: Step
) -> int:
    """Record the next group epoch with the hash of the subscribed topics. Returns the epoch."""
    rebalancing.note(group, cause, step)
    epoch = group.epoch + 1
    value = ConsumerGroupMetadataValue(epoch, hash_)
    if group.has_partition_metadata:
        step.record(PartitionMetadataRecord(GroupKey(group.id), None))
    step.record(ConsumerGroupMetadataRecord(GroupKey(group.id), value))
    group.checked_version = topics.version
    group.unrecorded_hash = None
    return epoch


def forget_regexes(group: ConsumerGroup, regexes: Iterable[str], step: Step) -> None:
    """Delete the records of regular expressions without members."""
    for regex in regexes:
        if regex in group.regexes:
            key = RegularExpressionKey(group.id, regex)
            step.record(RegularExpressionRecord(key, None))


def delete_member(group: ConsumerGroup, member_id: str, step: Step) -> None:
    """Delete the records of a member, in an order that Kafka can replay."""
    key = MemberKey(group.id, member_id)
    step.record(CurrentMemberAssignmentRecord(key, None))
    step.record(TargetAssignmentMemberRecord(key, None))
    step.record(ConsumerGroupMemberMetadataRecord(key, None))


def take_over(
    group: ConsumerGroup, old: ConsumerMember, member_id: str, step: Step
) -> ConsumerMember:
    """Record that a static member returns under this id. Returns the new member."""
    current = old.current._replace(epoch=0, previous_epoch=0)
    delete_member(group, old.member_id, step)
    key = MemberKey(group.id, member_id)
    step.record(ConsumerGroupMemberMetadataRecord(key, old.metadata))
    target = group.targets.get(old.member_id, {})
    step.record(TargetAssignmentMemberRecord(key, TargetAssignmentMemberValue(target)))
    step.record(CurrentMemberAssignmentRecord(key, current))
    return ConsumerMember(member_id, old.metadata, current)


def _without_epochs(assigned: AssignedPartitions) -> AssignedPartitions:
    return {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in assigned.items()}
