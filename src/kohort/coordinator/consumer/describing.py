"""ConsumerGroupDescribe (API 69)."""

from collections.abc import Collection, Mapping
from uuid import UUID

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer_records import CurrentMemberAssignmentValue
from kohort.coordinator.requests import DescribeConsumerGroup
from kohort.coordinator.responses import DescribeConsumerGroupResponse, DescribedConsumerMember
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
        topics=_names(group, topics),
        members=tuple(_described(group, member_id) for member_id in group.table.order()),
    )


def _names(group: ConsumerGroup, topics: TopicsView) -> dict[UUID, str]:
    """The names of the members' existing topics."""
    images = map(topics.by_id, set(group.owners).union(*group.targets.values()))
    return {topic.id: topic.name for topic in images if topic is not None}


def _described(group: ConsumerGroup, member_id: str) -> DescribedConsumerMember:
    member = group.members[member_id]
    return DescribedConsumerMember(
        member_id=member_id,
        epoch=member.current.epoch,
        metadata=member.metadata,
        assignment=_held(member.current),
        target=group.targets.get(member_id, {}),
    )


def _held(current: CurrentMemberAssignmentValue) -> Mapping[UUID, Collection[int]]:
    """Assigned partitions, including those that the member has yet to revoke."""
    assigned, pending = current.assigned, current.pending_revocation
    if not pending:
        return assigned
    topics = dict.fromkeys((*assigned, *pending))
    return {topic: (*assigned.get(topic, ()), *pending.get(topic, ())) for topic in topics}
