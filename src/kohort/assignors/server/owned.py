"""Partitions that old targets give to members."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from kohort.assignors.server.base import Target

Id = TypeVar("Id", bound=str)


def owned_partitions(targets: Iterable[Target]) -> Mapping[UUID, Sequence[tuple[int, ...]]]:
    """Topic id → the partitions of each member that has any."""
    owned: dict[UUID, list[tuple[int, ...]]] = defaultdict(list)
    for target in targets:
        for topic_id, partitions in target.items():
            owned[topic_id].append(partitions)
    return owned


def without_overlaps(targets: Mapping[Id, Target]) -> Mapping[Id, Target]:
    """The targets with each partition only in the first target that has it.

    An unchanged target is the same object as before.
    """
    shared = {
        topic_id: set[int]()
        for topic_id, owned in owned_partitions(targets.values()).items()
        if len(set[int]().union(*owned)) < sum(map(len, owned))
    }
    if not shared:
        return targets
    return {member_id: _without_taken(target, shared) for member_id, target in targets.items()}


def _without_taken(target: Target, taken_numbers: Mapping[UUID, set[int]]) -> Target:
    """The target without partitions in `taken_numbers`; adds its partitions of these topics."""
    remaining = dict(target)
    for topic_id in target.keys() & taken_numbers.keys():
        before = taken_numbers[topic_id]
        numbers = tuple(partition for partition in target[topic_id] if partition not in before)
        before.update(numbers)
        if numbers:
            remaining[topic_id] = numbers
        else:
            del remaining[topic_id]
    return target if remaining == target else remaining
