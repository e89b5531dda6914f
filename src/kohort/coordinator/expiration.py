"""Expiration of committed offsets and of empty groups (KIP-211).

| group | its offset expires when |
|---|---|
| Empty, with a protocol type | the retention has passed since the group became Empty, if known |
| Stable, of type consumer | the same since the commit, and no member subscribes to the topic |
| rebalancing, or with members of another type | never |
| simple (no protocol type) | the retention has passed since the commit |

A commit with an expiry of its own (OffsetCommit v2-4) expires at that time instead. An Empty group
without offsets expires too, unless it has a pending member id. If the time at which a group became
Empty is unknown, the time of the commit counts.
"""

from kohort.coordinator.admin import tombstones
from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group, State
from kohort.coordinator.offsets import group_subscription, offset_tombstone
from kohort.coordinator.records import NO_TIMESTAMP, OffsetCommitValue
from kohort.coordinator.step import Step
from kohort.types import TopicPartition


def expire_offsets(group: Group, step: Step) -> None:
    """Write tombstones for the expired offsets of one group, and for the group if it expired."""
    empty = group.state is State.EMPTY
    due = _due_when_empty(group, step) if empty else _due_when_stable(group, step)
    if empty and not group.pending and len(due) == len(group.offsets):
        tombstones(group, step)
        return
    for partition in due:
        step.record(offset_tombstone(group.id, partition))


def _due_when_empty(group: Group, step: Step) -> list[TopicPartition]:
    since = NO_TIMESTAMP
    if group.logged is not None and group.logged.value.protocol_type:
        since = group.logged.value.current_state_timestamp
    return [
        partition
        for partition, value in group.offsets.items()
        if _is_due(value, value.commit_timestamp if since == NO_TIMESTAMP else since, step)
    ]


def _due_when_stable(group: Group, step: Step) -> list[TopicPartition]:
    if group.state is not State.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return []
    subscribed = group_subscription(group)
    if subscribed is None:
        return []
    return [
        partition
        for partition, value in group.offsets.items()
        if partition.topic not in subscribed and _is_due(value, value.commit_timestamp, step)
    ]


def _is_due(value: OffsetCommitValue, since: int, step: Step) -> bool:
    """`since`: when the retention of this offset began, in ms since the epoch."""
    if value.expire_timestamp != NO_TIMESTAMP:
        return step.timestamp >= value.expire_timestamp
    return step.timestamp - since >= step.config.offsets_retention_ms
