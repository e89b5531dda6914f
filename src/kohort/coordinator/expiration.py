"""Expiration of committed offsets and of empty groups (KIP-211).

| group | its offset expires when |
|---|---|
| Empty, with a protocol type | the retention has passed since the group became Empty, if known |
| Stable, of type consumer | the retention since the commit, and no member subscribes to the topic |
| rebalancing, or with members of another type | never |
| simple (no protocol type) | the retention has passed since the commit |
| consumer group (KIP-848) | the same, and no member subscribes to the topic; also if it is Empty |

A commit with an expiry of its own (OffsetCommit v2-4) expires at that time instead. An Empty group
without offsets expires too, unless it has a pending member id. If the time at which a group became
Empty is unknown, the time of the commit counts. While an open transaction has a pending offset of a
partition, neither that partition's offset nor the group expires.
"""

from collections.abc import Iterable, Set
from typing import TypeAlias

from kohort.coordinator.admin import tombstones
from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group, State
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.offsets import group_subscription, offset_tombstone
from kohort.coordinator.records import NO_TIMESTAMP, OffsetCommitValue
from kohort.coordinator.step import Step
from kohort.types import TopicPartition

_Offsets: TypeAlias = Iterable[tuple[TopicPartition, OffsetCommitValue]]


def expire_offsets(group: AnyGroup, step: Step) -> None:
    """Write tombstones for the expired offsets of one group, and for the group if it expired."""
    expired = _expired(group, group.offsets.items(), step)
    awaits = isinstance(group, Group) and bool(group.pending)
    unused = not awaits and group.offsets.pending is None
    if group.is_empty and unused and len(expired) == len(group.offsets):
        tombstones(group, step)
        return
    for partition in expired:
        step.record(offset_tombstone(group.id, partition))


def expire_some_offsets(group: AnyGroup, partitions: Iterable[TopicPartition], step: Step) -> None:
    """Write tombstones for the expired ones of these offsets."""
    offsets = group.offsets
    committed = (
        (partition, offsets[partition]) for partition in partitions if partition in offsets
    )
    for partition in _expired(group, committed, step):
        step.record(offset_tombstone(group.id, partition))


def _expired(group: AnyGroup, offsets: _Offsets, step: Step) -> list[TopicPartition]:
    """The partitions of the group's expired offsets."""
    if isinstance(group, ConsumerGroup):
        expired = _expired_unsubscribed(group.subscribed_topics(), offsets, step)
    elif group.is_empty:
        expired = _expired_when_empty(group, offsets, step)
    else:
        expired = _expired_when_stable(group, offsets, step)
    pending = group.offsets.pending
    return expired if pending is None else pending.stable(expired)


def _expired_when_empty(group: Group, offsets: _Offsets, step: Step) -> list[TopicPartition]:
    since = NO_TIMESTAMP
    if group.logged is not None and group.logged.value.protocol_type:
        since = group.logged.value.current_state_timestamp
    return [
        partition
        for partition, value in offsets
        if _is_expired(value, value.commit_timestamp if since == NO_TIMESTAMP else since, step)
    ]


def _expired_when_stable(group: Group, offsets: _Offsets, step: Step) -> list[TopicPartition]:
    if group.state is not State.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return []
    subscribed = group_subscription(group)
    return [] if subscribed is None else _expired_unsubscribed(subscribed, offsets, step)


def _expired_unsubscribed(
    subscribed: Set[str], offsets: _Offsets, step: Step
) -> list[TopicPartition]:
    """Partitions of expired offsets whose topics have no subscribed member."""
    return [
        partition
        for partition, value in offsets
        if partition.topic not in subscribed and _is_expired(value, value.commit_timestamp, step)
    ]


def _is_expired(value: OffsetCommitValue, since: int, step: Step) -> bool:
    """Whether the offset is expired; its retention began at `since`, in ms since the epoch."""
    if value.expire_timestamp != NO_TIMESTAMP:
        return step.timestamp >= value.expire_timestamp
    return step.timestamp - since >= step.config.offsets_retention_ms
