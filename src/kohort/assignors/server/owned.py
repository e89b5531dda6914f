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
    """Targets of members of which no two have the same partition: the first one keeps it.

    A target without such partitions is the same object as before.
    """
    shared = {
        topic_id: set[int]()
        for topic_id, owned in owned_partitions(targets.values()).items()
        if len(set[int]().union(*owned)) < sum(map(len, owned))
    }
    if not shared:
        return targets
    return {member_id: _without_taken(target, shared) for member_id, target in targets.items()}


def _without_taken(target: Target, taken: Mapping[UUID, set[int]]) -> Target:
    """The target without partitions that are taken; takes the others of these topics."""
    left = dict(target)
    for topic_id in target.keys() & taken.keys():
        before = taken[topic_id]
        kept = tuple(each for each in target[topic_id] if each not in before)
        before.update(kept)
        if kept:
            left[topic_id] = kept
        else:
            del left[topic_id]
    return target if left == target else left
