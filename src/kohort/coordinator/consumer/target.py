"""The target assignment of all members of a group.

It is computed when the group epoch is ahead of the assignment epoch, at most once per assignment
interval. Until then the old target is in force.

The target of a large group is computed in the background and stored in parts, with the record of
the assignment epoch last. Until then the old epoch is in force, as within the assignment interval.

If an assignor raises, a later request gets the error, and the next one computes the target again.

Source: Kafka's TargetAssignmentBuilder.
"""

from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import Final

from kohort.assignors.server import Target
from kohort.coordinator.consumer import rebalancing
from kohort.coordinator.consumer.change import MemberChange
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.subscribed_metadata import existing
from kohort.coordinator.consumer_records import (
    GroupKey,
    MemberKey,
    Partitions,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.jobs import ComputeTarget, TargetComputed, TargetFailed
from kohort.coordinator.specs import Snapshot
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.types import MemberId

MAX_IMMEDIATE_SIZE: Final = 1_000
"""Maximum size of a group (`Snapshot.size`) whose target is computed immediately."""
MAX_STORED_WEIGHT: Final = 20_000
"""Maximum weight of the targets that one event stores, in about 20 ms.

Smaller parts would take more turns, and delay a busy group longer.
"""
_MEMBER_WEIGHT: Final = 4
"""Weight of an empty target; a topic, or as many partitions as the next constant, adds 1."""
_PARTITIONS_OF_A_WEIGHT: Final = 64
RETRY_INTERVAL_MS: Final = 1_000
"""Time after a failed computation before a request gets its error."""
_NO_TARGET: Partitions = {}
_NEVER: Final = 0
"""Timestamp of a target that was not computed."""


def is_due(group: ConsumerGroup, step: Step) -> bool:
    """Whether the assignment interval has passed since the target was computed.

    A target with a future timestamp is older than a reset of the wall clock.
    """
    interval = step.config.consumer_group(group.id).assignment_interval_ms
    return not 0 <= step.timestamp - group.target_timestamp < interval


def update_target(
    change: MemberChange, epoch: int, topics: TopicsView, step: Step
) -> tuple[int, Partitions]:
    """Compute the target if it is behind the group epoch `epoch` and due.

    Returns the assignment epoch, and the target of the changed member.
    """
    group = change.group
    waits = group.assigning is not None or group.failed_at is not None
    if epoch > group.target_epoch and not waits and is_due(group, step):
        job = _job(change, epoch, topics, step)
        changed = _changed(job) if job.snapshot.size <= MAX_IMMEDIATE_SIZE else None
        if changed is not None:
            for member_id, target in changed.items():
                _store(group, member_id, target, step)
            _store_epoch(group, epoch, step)
            return epoch, changed.get(change.member_id, change.target or _NO_TARGET)
        group.assigning = job
        step.start(job)
    return group.target_epoch, change.target or _NO_TARGET


def _changed(job: ComputeTarget) -> dict[str, Target] | None:
    """The new targets; None if the assignor raises (the background job will report it)."""
    try:
        return dict(job.changed())
    except Exception:  # one broken assignor must not fail the shard with all its groups
        return None


def validate_target(group: ConsumerGroup, step: Step) -> None:
    """Raises KafkaError UNKNOWN_SERVER_ERROR if the last computation failed.

    Only one request gets the error, after a delay, so that a broken assignor is called rarely.
    """
    if group.failed_at is not None and step.now >= group.failed_at + RETRY_INTERVAL_MS:
        group.failed_at = None
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"Failed to compute a new target assignment for epoch {group.epoch}: "
            f"{group.target_error}",
        )


def target_failed(group: ConsumerGroup, event: TargetFailed, step: Step) -> None:
    """The pending computation raised; the old target stays in force."""
    if group.assigning is event.job:
        group.assigning = None
        group.failed_at, group.target_error = step.now, event.error


def target_computed(group: ConsumerGroup, event: TargetComputed, step: Step) -> None:
    """Store a part of a target without removed members; after the last part, its epoch.

    A target for which the group does not wait is ignored: the group was deleted, or a static member
    has returned under another id.
    """
    if group.assigning is not event.job:
        return
    count = _count_at_once(event.changed)
    part, later = event.changed[:count], event.changed[count:]
    for member_id, target in part:
        if member_id in group.members:
            _store(group, member_id, target, step)
    if later:
        step.continue_with(TargetComputed(event.job, later))
    else:
        group.assigning = group.target_error = None
        _store_epoch(group, event.job.epoch, step)


def _count_at_once(changed: Iterable[tuple[str, Target]]) -> int:
    """Number of these targets that one event stores, at least one if there is any."""
    weights = accumulate(
        _MEMBER_WEIGHT + len(target) + sum(map(len, target.values())) // _PARTITIONS_OF_A_WEIGHT
        for _, target in changed
    )
    return 1 + sum(1 for _ in takewhile(MAX_STORED_WEIGHT.__ge__, weights))


def _store(group: ConsumerGroup, member_id: str, target: Target, step: Step) -> None:
    key, value = MemberKey(group.id, member_id), TargetAssignmentMemberValue(target)
    step.record(TargetAssignmentMemberRecord(key, value))


def assign_nothing(group: ConsumerGroup, epoch: int, step: Step) -> None:
    """Store the epoch of an empty target; the next member's target is computed immediately.

    A pending computation is ignored: its epoch belongs to a former member.
    """
    group.assigning = None
    value = TargetAssignmentMetadataValue(epoch, _NEVER)
    step.record(TargetAssignmentMetadataRecord(GroupKey(group.id), value))


def _store_epoch(group: ConsumerGroup, epoch: int, step: Step) -> None:
    value = TargetAssignmentMetadataValue(epoch, step.timestamp)
    step.record(TargetAssignmentMetadataRecord(GroupKey(group.id), value))
    rebalancing.note_target(group, step)


def _job(change: MemberChange, epoch: int, topics: TopicsView, step: Step) -> ComputeTarget:
    return ComputeTarget(
        group=change.group.id,
        epoch=epoch,
        assignor=change.assignor or step.config.consumer_assignors[0],
        snapshot=_snapshot(change, topics),
    )


def _snapshot(change: MemberChange, topics: TopicsView) -> Snapshot:
    group, member_id, replaced = change.group, change.member_id, change.replaced
    members, targets = group.members.copy(), group.targets.copy()
    target = change.target
    if replaced is not None:
        members.pop(replaced)
        targets.pop(replaced, None)
    metadata = change.after.metadata
    names = group.subscriptions.one_of(metadata.topics)
    members[member_id] = change.after._replace(metadata=metadata._replace(topics=names))
    if target is not None:
        targets[member_id] = target
    return Snapshot(
        table=group.table.copy(),
        members=members,
        targets=targets,
        regexes=group.regexes.copy(),
        topics=existing(change.subscribed_topics(), topics),
        names=group.subscriptions.size
        + len(names)
        + sum(len(resolution.topics) for resolution in group.regexes.values()),
        updated=MemberId(member_id),
        replaced=None if replaced is None else MemberId(replaced),
    )
