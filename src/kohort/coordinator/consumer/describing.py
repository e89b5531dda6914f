"""ConsumerGroupDescribe (API 69)."""

from collections.abc import Mapping
from uuid import UUID

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerMember
from kohort.coordinator.consumer_records import CurrentMemberAssignmentValue
from kohort.coordinator.requests import DescribeConsumerGroup
from kohort.coordinator.responses import (
    DescribeConsumerGroupResponse,
    DescribedConsumerMember,
    TopicAssignment,
)
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode


def describe_consumer_group(
    group: object,
    request: DescribeConsumerGroup,
    topics: TopicsView,
    config: GroupCoordinatorConfig,
) -> DescribeConsumerGroupResponse:
    """Describe a consumer group."""
    if not request.group:
        return DescribeConsumerGroupResponse(error=ErrorCode.invalid_group_id, group="")
    if not isinstance(group, ConsumerGroup):
        why = "not found" if group is None else "is not a consumer group"
        return DescribeConsumerGroupResponse(
            error=ErrorCode.group_id_not_found,
            error_message=f"Group {request.group} {why}.",
            group=request.group,
        )
    return DescribeConsumerGroupResponse(
        group=group.id,
        state=group.state,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=group.assignor or config.consumer_assignors[0],
        members=tuple(
            _described(group, group.members[member_id], topics) for member_id in group.table.order()
        ),
    )


def _described(
    group: ConsumerGroup, member: ConsumerMember, topics: TopicsView
) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        epoch=member.current.epoch,
        metadata=member.metadata,
        assignment=_named(_held(member.current), topics),
        target=_named(group.targets.get(member.member_id, {}), topics),
    )


def _held(current: CurrentMemberAssignmentValue) -> Mapping[UUID, tuple[int, ...]]:
    """What is assigned to the member, and what it has yet to revoke."""
    topics = dict.fromkeys((*current.assigned, *current.pending_revocation))
    return {
        topic: (*current.assigned.get(topic, ()), *current.pending_revocation.get(topic, ()))
        for topic in topics
    }


def _named(
    partitions: Mapping[UUID, tuple[int, ...]], topics: TopicsView
) -> tuple[TopicAssignment, ...]:
    """The same with names, without topics that are gone."""
    found = ((topics.by_id(topic_id), each) for topic_id, each in partitions.items())
    return tuple(
        TopicAssignment(topic.id, topic.name, each) for topic, each in found if topic is not None
    )
