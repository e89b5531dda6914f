"""The target assignment of all members of a group.

It is computed when the group epoch is ahead of the assignment epoch, but not more often than the
group's assignment interval. Until then the old target holds.

Source: Kafka's TargetAssignmentBuilder.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kohort.assignors.server import MemberSpec, Subscription, assign, subscription
from kohort.coordinator.consumer.change import MemberChange
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataValue,
    GroupKey,
    MemberKey,
    Partitions,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.types import InstanceId, MemberId

_NO_TARGET: Partitions = {}


def is_due(group: ConsumerGroup, step: Step) -> bool:
    """Whether the assignment interval has passed since the target was computed."""
    interval = step.config.consumer_group(group.id).assignment_interval_ms
    return (
        not group.target_timestamp
        or not interval
        or step.timestamp >= group.target_timestamp + interval
    )


def compute_target(change: MemberChange, epoch: int, topics: TopicsView, step: Step) -> Partitions:
    """Record the target of all members at this group epoch; returns that of the changed member."""
    group = change.group
    specs = _Specs(change, topics)
    assigned = assign(
        change.assignor or step.config.consumer_assignors[0],
        specs.members,
        specs.partitions,
        homogeneous=specs.is_homogeneous,
    )
    for member_id, target in assigned.items():
        if target is not specs.members[member_id].target or not _has_target(change, member_id):
            step.record(
                TargetAssignmentMemberRecord(
                    MemberKey(group.id, member_id), TargetAssignmentMemberValue(target)
                )
            )
    step.record(
        TargetAssignmentMetadataRecord(
            GroupKey(group.id), TargetAssignmentMetadataValue(epoch, step.timestamp)
        )
    )
    return assigned[MemberId(change.member_id)]


def _has_target(change: MemberChange, member_id: str) -> bool:
    return member_id in change.group.targets or (
        member_id == change.member_id and change.target is not None
    )


class _Specs:
    """The members of a group and their topics, as an assignor takes them."""

    def __init__(self, change: MemberChange, topics: TopicsView) -> None:
        self._group = change.group
        self._topics = topics
        self.partitions: dict[UUID, int] = {}
        """Topic id → number of partitions, of all subscribed topics."""
        self._subscriptions: dict[tuple[tuple[str, ...], str], Subscription] = {}
        """(names, regular expression) → subscription: members mostly have the same one."""
        order = change.group.table.assignment_order(
            MemberId(change.member_id),
            None if change.replaced is None else MemberId(change.replaced),
        )
        self.members: Mapping[MemberId, MemberSpec] = {
            member_id: self._spec(change, member_id) for member_id in order
        }

    @property
    def is_homogeneous(self) -> bool:
        """Whether all name the same topics, or all use one regular expression and no names."""
        if len(self._subscriptions) != 1:
            return False
        (names, regex) = next(iter(self._subscriptions))
        return not regex or not names

    def _spec(self, change: MemberChange, member_id: MemberId) -> MemberSpec:
        is_changed = member_id == change.member_id
        metadata = (change.after if is_changed else self._group.members[member_id]).metadata
        target = change.target if is_changed else self._group.targets.get(member_id)
        instance_id = metadata.instance_id
        return MemberSpec(
            self._subscription(metadata),
            _NO_TARGET if target is None else target,
            None if instance_id is None else InstanceId(instance_id),
        )

    def _subscription(self, metadata: ConsumerGroupMemberMetadataValue) -> Subscription:
        key = metadata.topics, metadata.regex
        known = self._subscriptions.get(key)
        if known is None:
            resolved = self._group.regexes.get(metadata.regex)
            matched = () if resolved is None else resolved.topics
            known = subscription(metadata.topics, matched, self._ids((*metadata.topics, *matched)))
            self._subscriptions[key] = known
        return known

    def _ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """The ids of those that exist."""
        ids: dict[str, UUID] = {}
        for topic in map(self._topics.by_name, names):
            if topic is not None:
                ids[topic.name] = topic.id
                self.partitions[topic.id] = topic.partitions
        return ids
