"""The next assignment of one member, a pure function of its target and its partitions.

| state | action |
|---|---|
| STABLE | its epoch is not the target's: *advance*; the subscription changed: *shed* |
| UNREVOKED_PARTITIONS | it still owns what it has to revoke: wait, or *shed*; else *advance* |
| UNRELEASED_PARTITIONS, unknown | *advance* |

*advance* removes partitions outside the target. If the member still owns some of them, it must
revoke them first, at its old epoch. Otherwise it moves to the target's epoch and gets the free
partitions.

*shed* removes partitions of topics to which the member no longer subscribes, before there is a new
target.

Source: Kafka's CurrentAssignmentBuilder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from kohort.coordinator.consumer.group import MemberState
from kohort.coordinator.consumer_records import (
    AssignedPartitions,
    CurrentMemberAssignmentValue,
    Partitions,
)

_Assigned: TypeAlias = dict[UUID, dict[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Inputs of the reconciliation of a member, beside its current assignment."""

    epoch: int
    """Epoch of the target assignment."""
    target: Partitions
    """The member's target, only with subscribed topics."""
    is_subscribed: Callable[[UUID], bool]
    """Whether the member subscribes to the topic of this id."""
    subscription_changed: bool
    owned: Partitions | None
    """TopicPartitions of the request: the owned partitions; None if absent."""
    is_free: Callable[[UUID, int], bool]
    """Whether no other member owns the partition."""


def reconcile(current: CurrentMemberAssignmentValue, goal: Goal) -> CurrentMemberAssignmentValue:
    """The next assignment of a member, `current` itself if nothing changes."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch != goal.epoch:
                return _advance(current, goal)
            return _shed(current, goal) if goal.subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS:
            if not _owns_any(goal.owned, current.pending_revocation):
                return _advance(current, goal)
            return _shed(current, goal) if goal.subscription_changed else current
        case _:
            return _advance(current, goal)


def _advance(current: CurrentMemberAssignmentValue, goal: Goal) -> CurrentMemberAssignmentValue:
    kept, lost = _split(current.assigned, goal.target)
    if lost and _owns_any(goal.owned, lost):
        return CurrentMemberAssignmentValue(
            current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, lost
        )
    assigned, waits = _with_free(kept, goal)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return CurrentMemberAssignmentValue(goal.epoch, current.epoch, state, assigned, {})


def _shed(current: CurrentMemberAssignmentValue, goal: Goal) -> CurrentMemberAssignmentValue:
    kept = {
        topic: partitions
        for topic, partitions in current.assigned.items()
        if goal.is_subscribed(topic)
    }
    if len(kept) == len(current.assigned):
        return current
    pending: _Assigned = {
        topic: dict(partitions) for topic, partitions in current.pending_revocation.items()
    }
    for topic, epochs in current.assigned.items():
        if topic not in kept:
            pending.setdefault(topic, {}).update(epochs)
    if _owns_any(goal.owned, pending):
        return CurrentMemberAssignmentValue(
            current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending
        )
    return current._replace(previous_epoch=current.epoch, assigned=kept)


def _split(assigned: AssignedPartitions, target: Partitions) -> tuple[_Assigned, _Assigned]:
    """The assigned partitions inside and outside the target."""
    kept: _Assigned = {}
    lost: _Assigned = {}
    for topic, epochs in assigned.items():
        target_numbers = frozenset(target.get(topic, ()))
        for partition, epoch in epochs.items():
            part = kept if partition in target_numbers else lost
            part.setdefault(topic, {})[partition] = epoch
    return kept, lost


def _with_free(kept: _Assigned, goal: Goal) -> tuple[Mapping[UUID, Mapping[int, int]], bool]:
    """The assignment at the target's epoch, and whether it waits for partitions of others."""
    assigned: _Assigned = {}
    waits = False
    for topic, partitions in goal.target.items():
        current_epochs = kept.get(topic, {})
        epochs: dict[int, int] = {}
        for partition in partitions:
            if partition in current_epochs:
                epochs[partition] = current_epochs[partition]
            elif goal.is_free(topic, partition):
                epochs[partition] = goal.epoch
            else:
                waits = True
        if epochs:
            assigned[topic] = epochs
    return assigned, waits


def _owns_any(owned: Partitions | None, partitions: AssignedPartitions) -> bool:
    """Whether the member owns any of these partitions; if `owned` is None, it may own all."""
    if owned is None:
        return True
    return any(
        topic in partitions and not partitions[topic].keys().isdisjoint(epochs)
        for topic, epochs in owned.items()
    )
