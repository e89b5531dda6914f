"""The upgrade of a classic group with members to a consumer group, online.

A consumer that joins with the consumer protocol starts it. All members of the classic group become
classic members of the consumer group, with the assignment of the last synced generation. The epochs
continue the generation. Parked requests get REBALANCE_IN_PROGRESS: their members rejoin one by one.

A cooperative member revokes partitions after the generation that took them from it. Unlike in
Kafka, unassigned partitions that a member owned when it last joined stay its own until it rejoins.

Source: validateOnlineUpgrade and convertToConsumerGroup of Kafka.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group, MemberSession
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer import timers
from kohort.coordinator.consumer.classic_assignments import partitions_by_id
from kohort.coordinator.consumer.group import (
    NEW_MEMBER,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    partitions_of,
)
from kohort.coordinator.consumer.subscribed_metadata import metadata_hash
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    ConsumerGroupRecord,
    CurrentMemberAssignmentRecord,
    GroupKey,
    MemberKey,
    Partitions,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord
from kohort.coordinator.responses import JoinGroupResponse, SyncGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, SyncPhaseEnds
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import decode_assignment, decode_subscription


def upgrade(group: Group, topics: TopicsView, step: Step) -> ConsumerGroup:
    """Record the upgrade of the group. Returns the resulting consumer group.

    Raises KafkaError GROUP_ID_NOT_FOUND if it must stay a classic group.
    """
    _validate(group, step.config)
    try:
        members = _revoking(
            _converted(group, session, topics) for session in group.sessions.values()
        )
    except MalformedError as error:
        raise _refused(group, f"the embedded consumer protocol is malformed: {error}") from error
    upgraded = ConsumerGroup(group.id, group.offsets)
    step.record(GroupMetadataRecord(GroupMetadataKey(group.id), None))
    for record in _records(group, members, topics):
        upgraded.replay(record)
        step.record(record)
    if sum(len(epochs) for epochs in upgraded.owners.values()) < sum(
        len(epochs) for member in members for epochs in member.current.assigned.values()
    ):
        raise _refused(group, "a partition is assigned to two members")
    _end_round(group, step)
    for member in members:
        timers.restart_session(upgraded, member, step)
        timers.restart_revocation(upgraded, member, step)
    return upgraded


def _validate(group: Group, config: GroupCoordinatorConfig) -> None:
    if not config.consumer_migration_policy.upgrades:
        raise _refused(group, "the online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(group, "the group does not use the consumer embedded protocol")
    if len(group.sessions) > config.consumer_max_size:
        raise _refused(
            group, "the group exceeds the maximum size of a consumer group, by its members"
        )


def _refused(group: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {group.id} to consumer group because {why}.",
    )


def _converted(
    group: Group, session: MemberSession, topics: TopicsView
) -> tuple[ConsumerMember, Partitions]:
    """The converted member, and the partitions that it owned when it last joined.

    Raises MalformedError, and KafkaError.
    """
    metadata = session.metadata(group.protocol) or session.protocols[0][1]
    subscription = decode_subscription(metadata)
    synced = None if group.logged is None else group.logged.members.get(session.member_id)
    partitions: Partitions = {}
    if synced is not None and synced.assignment:
        assignment = decode_assignment(synced.assignment)
        if assignment.user_data:
            raise _refused(group, "an unsupported custom assignor is in use")
        partitions = partitions_by_id(assignment.partitions, topics)
    epoch = group.generation
    assigned = {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}
    member = ConsumerMember(
        session.member_id,
        ConsumerGroupMemberMetadataValue(
            instance_id=session.instance_id,
            rack_id=subscription.rack or None,
            client_id=session.client_id,
            client_host=session.client_host,
            topics=tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=session.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(session.session_timeout_ms, session.protocols),
        ),
        NEW_MEMBER._replace(epoch=epoch, previous_epoch=epoch, assigned=assigned),
    )
    return member, partitions_by_id(subscription.owned, topics)


def _revoking(converted: Iterable[tuple[ConsumerMember, Partitions]]) -> list[ConsumerMember]:
    """The members, with the unassigned partitions that they owned as yet to revoke."""
    pairs = list(converted)
    owned_or_pending = {
        (topic_id, partition)
        for member, _ in pairs
        for topic_id, epochs in member.current.assigned.items()
        for partition in epochs
    }
    members = []
    for member, owned in pairs:
        pending: dict[UUID, dict[int, int]] = {}
        for topic_id, partitions in owned.items():
            for partition in partitions:
                if (topic_id, partition) not in owned_or_pending:
                    owned_or_pending.add((topic_id, partition))
                    pending.setdefault(topic_id, {})[partition] = member.current.epoch
        state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
        current = member.current._replace(state=state, pending_revocation=pending)
        members.append(member._replace(current=current))
    return members


def _records(
    group: Group, members: list[ConsumerMember], topics: TopicsView
) -> Iterator[ConsumerGroupRecord]:
    epoch, key = group.generation, GroupKey(group.id)
    keys = [MemberKey(group.id, member.member_id) for member in members]
    for member_key, member in zip(keys, members, strict=True):
        yield ConsumerGroupMemberMetadataRecord(member_key, member.metadata)
    subscribed = {name for member in members for name in member.metadata.topics}
    value = ConsumerGroupMetadataValue(epoch, metadata_hash(subscribed, topics))
    yield ConsumerGroupMetadataRecord(key, value)
    for member_key, member in zip(keys, members, strict=True):
        target = TargetAssignmentMemberValue(partitions_of(member.current.assigned))
        yield TargetAssignmentMemberRecord(member_key, target)
    yield TargetAssignmentMetadataRecord(key, TargetAssignmentMetadataValue(epoch))
    for member_key, member in zip(keys, members, strict=True):
        yield CurrentMemberAssignmentRecord(member_key, member.current)


def _end_round(group: Group, step: Step) -> None:
    """Let the members with parked requests rejoin."""
    step.cancel_timer(JoinPhaseEnds(group.id))
    step.cancel_timer(SyncPhaseEnds(group.id))
    round_ = group.round
    if round_ is None:
        return
    error = ErrorCode.rebalance_in_progress
    for member_id, on_response in round_.joins.items():
        step.reply(on_response, JoinGroupResponse(error=error, member_id=member_id))
    for on_response in round_.syncs.values():
        step.reply(on_response, SyncGroupResponse(error=error))
    step.journal_rebalance(
        round_.ended(group.id, "upgraded", tuple(group.sessions), step.now, step.timestamp)
    )
