"""Which offsets and groups are due to go (KIP-211).

| group | its offset expires when |
|---|---|
| Empty, with a protocol type | the retention has passed since the group became Empty (unknown: since the commit) |
| Stable, of type consumer | the retention has passed since the commit, and no member subscribes to the topic |
| rebalancing, or with members of another type | never |
| simple (no protocol type) | the retention has passed since the commit |

A commit that brought its own expiry (OffsetCommit v2-4) expires at that time instead. An Empty group without offsets
goes too, unless an id was handed out for it.
"""

from kohort.coordinator.admin import tombstones
from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group, State
from kohort.coordinator.offsets import group_subscription, offset_tombstone
from kohort.coordinator.records import NO_TIMESTAMP, OffsetCommitValue
from kohort.coordinator.step import Step


def expire_offsets(group: Group, step: Step) -> None:
    """Write tombstones for what is due in one group."""
    due = [partition for partition, value in group.offsets.items() if _is_due(group, partition.topic, value, step)]
    empty = group.state is State.EMPTY and not group.pending
    if empty and len(due) == len(group.offsets):
        tombstones(group, step)
        return
    for partition in due:
        step.record(offset_tombstone(group.id, partition))


def _is_due(group: Group, topic: str, value: OffsetCommitValue, step: Step) -> bool:
    since = _retained_since(group, topic, value)
    if since is None:
        return False
    if value.expire_timestamp != NO_TIMESTAMP:
        return step.now >= value.expire_timestamp
    return step.now - since >= step.config.offsets_retention_ms


def _retained_since(group: Group, topic: str, value: OffsetCommitValue) -> int | None:
    """When the retention of this offset began, in ms since the epoch; None: it does not expire."""
    state = group.state
    if state is State.EMPTY:
        logged = group.logged
        if logged is None or not logged.value.protocol_type:
            return value.commit_timestamp
        since = logged.value.current_state_timestamp
        return value.commit_timestamp if since == NO_TIMESTAMP else since
    if state is State.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        subscribed = group_subscription(group)
        return value.commit_timestamp if subscribed is not None and topic not in subscribed else None
    return None
