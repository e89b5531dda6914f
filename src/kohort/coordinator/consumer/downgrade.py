"""The downgrade of a consumer group to a classic group, online.

| cause | then |
|---|---|
| the last member of the consumer protocol leaves or expires, classic ones stay | a rebalance |
| a classic member takes its instance id over, and changes nothing else | none |
| the same, with another subscription or on the way to a new target | a rebalance |

The generation is the group epoch, and the assignments are the members' current ones. Kafka uses
their targets, which may include partitions that other members still own: after a crash before the
next generation, a SyncGroup would return them.

Source: validateOnlineDowngrade…, convertToClassicGroup and ClassicGroup.fromConsumerGroup of Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Group, MemberSession
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer import rebalancing, timers
from kohort.coordinator.consumer.classic_assignments import encoded_assignment
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerMember, partitions_of
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupRecord,
    CurrentMemberAssignmentRecord,
    GroupKey,
    MemberKey,
    PartitionMetadataRecord,
    Partitions,
    RegularExpressionKey,
    RegularExpressionRecord,
    TargetAssignmentMemberRecord,
    TargetAssignmentMetadataRecord,
)
from kohort.coordinator.journal import Cause
from kohort.coordinator.rebalance import rebalance
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.step import Step
from kohort.coordinator.sync import member_metadata
from kohort.coordinator.topics import TopicsView


def can_downgrade(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], config: GroupCoordinatorConfig
) -> bool:
    """Whether the group has only classic members left and may be downgraded."""
    remaining = len(group.members) - len(leaving)
    classic = group.classic_members - sum(member.is_classic for member in leaving)
    return (
        0 < remaining == classic
        and remaining <= config.max_size
        and config.consumer_migration_policy.downgrades
    )


def can_be_replaced(
    group: ConsumerGroup, member: ConsumerMember, config: GroupCoordinatorConfig
) -> bool:
    """Whether the group may be downgraded when a classic member replaces this one."""
    return (
        not member.is_classic
        and group.classic_members == len(group.members) - 1
        and len(group.members) <= config.max_size
        and config.consumer_migration_policy.downgrades
    )


def downgrade(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], topics: TopicsView, step: Step
) -> None:
    """Record the downgrade of the group without these members, and rebalance it."""
    leaving_ids = {member.member_id for member in leaving}
    stay = [
        group.members[member_id]
        for member_id in group.table.order()
        if member_id not in leaving_ids
    ]
    classic = convert(group, stay, topics, step)
    causes = [
        Cause("downgraded", member.member_id, member.metadata.client_id) for member in leaving
    ]
    rebalance(classic, causes, step)


def convert(
    group: ConsumerGroup, members: Sequence[ConsumerMember], topics: TopicsView, step: Step
) -> Group:
    """Record the downgrade of the group with these members. Returns the Stable classic group."""
    for member_id in group.members:
        timers.forget(group, member_id, step)
    for record in _tombstones(group):
        step.record(record)
    classic = Group(group.id, group.offsets)
    for member in members:
        classic.add_session(_session(member))
    assigned = {member.member_id: partitions_of(member.current.assigned) for member in members}
    value = _value(group, classic, assigned, topics, step)
    step.record(GroupMetadataRecord(GroupMetadataKey(group.id), value))
    # The replay of the record will do the same; the rest of this decision depends on it.
    classic.logged = ClassicGroup.of(value)
    for session in classic.sessions.values():
        step.restart_session(classic, session)
    rebalancing.end(group, group.epoch, "downgraded", tuple(classic.sessions), step)
    step.classic_group = classic
    return classic


def _session(member: ConsumerMember) -> MemberSession:
    metadata = member.metadata
    assert metadata.classic is not None
    return MemberSession(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        protocols=metadata.classic.protocols,
    )


def _value(
    group: ConsumerGroup,
    classic: Group,
    assigned: Mapping[str, Partitions],
    topics: TopicsView,
    step: Step,
) -> GroupMetadataValue:
    protocol = classic.select_protocol()
    sessions = tuple(classic.sessions.values())
    return GroupMetadataValue(
        CONSUMER_PROTOCOL_TYPE,
        group.epoch,
        protocol,
        sessions[0].member_id,
        step.timestamp,
        tuple(
            member_metadata(
                session,
                protocol,
                encoded_assignment(assigned[session.member_id], session.metadata(protocol), topics),
            )
            for session in sessions
        ),
    )


def _tombstones(group: ConsumerGroup) -> Iterator[ConsumerGroupRecord]:
    """Tombstones of all records of the group, in an order that Kafka can replay."""
    key = GroupKey(group.id)
    keys = [MemberKey(group.id, member_id) for member_id in group.table.order()]
    yield from (CurrentMemberAssignmentRecord(key, None) for key in keys)
    yield from (TargetAssignmentMemberRecord(key, None) for key in keys)
    yield TargetAssignmentMetadataRecord(key, None)
    yield from (ConsumerGroupMemberMetadataRecord(key, None) for key in keys)
    for regex in group.regexes:
        yield RegularExpressionRecord(RegularExpressionKey(group.id, regex), None)
    yield PartitionMetadataRecord(key, None)
    yield ConsumerGroupMetadataRecord(key, None)
