"""uniform, if all members subscribe to the same topics.

Kafka's UniformHomogeneousAssignmentBuilder.

Every member gets an equal number of partitions, whatever their topics. Members keep their
partitions up to their quota; the others go to members below their quota. If the partitions do not
divide evenly, the extra ones go to members that had them, else to the last members.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import TypeAlias
from uuid import UUID

from kohort.assignors.server.base import MemberSpec, Subscription, Target, Topics
from kohort.assignors.server.java_tables import (
    by_bucket,
    consecutive_order,
    copy_capacity,
    uuid_hash,
)
from kohort.assignors.server.mutable_target import MutableTarget, replayed, topic_order
from kohort.assignors.server.owned import owned_partitions
from kohort.types import MemberId


def assign_homogeneous(
    members: Mapping[MemberId, MemberSpec], topics: Topics
) -> dict[MemberId, Target]:
    """The target of each member; the same object as the old target if unchanged."""
    subscription = next(iter(members.values())).subscription
    sizes = _sizes(subscription, topics)
    targets = [member.target for member in members.values()]
    counts = [sum(map(len, target.values())) for target in targets]
    target_topics = set[UUID]().union(*targets)
    all_subscribed = target_topics <= set(sizes)
    total = sum(sizes.values())
    missing = total - sum(counts) if all_subscribed else total
    pool = _unowned(targets, target_topics, missing, subscription, sizes)
    low, extra = divmod(total, len(members))
    assigned = dict(zip(members, targets, strict=True))
    unfilled: list[tuple[MemberId, int, Target, MutableTarget | None]] = []
    for behind, member_id, target, count in zip(
        range(len(members), 0, -1), members, targets, counts, strict=True
    ):
        quota = low + (extra > 0)
        changed = None
        if count <= quota and all_subscribed:
            quota -= count
        else:
            quota, changed = _keep(target, sizes, quota, pool)
        if extra:
            if quota and behind > extra:
                # A later member may have more to keep.
                quota -= 1
            else:
                extra -= 1
        if quota:
            unfilled.append((member_id, quota, target, changed))
        elif changed is not None:
            assigned[member_id] = changed.result()
    cuts = _cut(pool, (quota for _, quota, _, _ in unfilled))
    for (member_id, _, target, changed), runs in zip(unfilled, cuts, strict=True):
        assigned[member_id] = _filled(target, changed, runs)
    return assigned


Run: TypeAlias = tuple[UUID, tuple[int, ...], bool]
"""Topic id, partitions, and whether they are known to ascend without gaps."""


def _sizes(subscription: Subscription, topics: Topics) -> Topics:
    """The subscribed topics with their numbers of partitions."""
    if len(topics) == len(subscription.topic_ids):
        return topics
    return {topic_id: topics[topic_id] for topic_id in subscription.topic_ids}


def _unowned(
    targets: Sequence[Target],
    target_topics: set[UUID],
    missing: int,
    subscription: Subscription,
    sizes: Topics,
) -> list[Run]:
    """Partitions without a target, in the order of assignment.

    `target_topics`: topics in targets. `missing`: number of partitions without a target, if targets
    have only subscribed topics.
    """
    numbers = tuple(range(max(sizes.values())))
    unowned: dict[UUID, Run] = {
        topic_id: (topic_id, numbers[: sizes[topic_id]], True)
        for topic_id in set(sizes) - target_topics
    }
    if missing != sum(len(partitions) for _, partitions, _ in unowned.values()):
        for topic_id, owned in owned_partitions(targets).items():
            if topic_id in sizes and sum(map(len, owned)) < sizes[topic_id]:
                is_owned = set[int]().union(*owned).__contains__
                partitions = tuple(filterfalse(is_owned, numbers[: sizes[topic_id]]))
                unowned[topic_id] = topic_id, partitions, False
    inserted = [topic_id for topic_id in subscription.topic_ids if topic_id in unowned]
    order = by_bucket(inserted, uuid_hash, copy_capacity(subscription.names))
    return [unowned[topic_id] for topic_id in order]


def _cut(pool: Sequence[Run], quotas: Iterable[int]) -> Iterator[Sequence[Run]]:
    """Cut off the partitions of each quota in turn; the pool must suffice for all quotas."""
    if not pool:
        return
    remaining = iter(pool)
    topic_id, partitions, is_consecutive = next(remaining)
    start = 0
    for quota in quotas:
        cut: list[Run] = []
        end = start + quota
        while end > len(partitions):
            if start < len(partitions):
                cut.append((topic_id, partitions[start:], is_consecutive))
            start, end = 0, end - len(partitions)
            topic_id, partitions, is_consecutive = next(remaining)
        cut.append((topic_id, partitions[start:end], is_consecutive))
        start = end
        yield cut


def _filled(target: Target, changed: MutableTarget | None, runs: Sequence[Run]) -> Target:
    """The target, or its changed copy if not None, with more partitions."""
    if not target and len(runs) == 1:
        topic_id, partitions, is_consecutive = runs[0]
        if is_consecutive:
            return {topic_id: consecutive_order(partitions)}
    filled = MutableTarget(target) if changed is None else changed
    for topic_id, partitions, _ in runs:
        filled.add(topic_id, partitions)
    return filled.result()


def _keep(
    target: Target, sizes: Topics, quota: int, pool: list[Run]
) -> tuple[int, MutableTarget | None]:
    """Keep partitions of subscribed topics up to the quota; the rest goes to the pool.

    Returns the number of partitions missing to the quota, and a copy of the target with only the
    kept partitions; None if all were kept.
    """
    changed: MutableTarget | None = None
    for topic_id in topic_order(target):
        partitions = target[topic_id]
        if topic_id in sizes and len(partitions) <= quota:
            quota -= len(partitions)
            continue
        if changed is None:
            changed = MutableTarget(target)
        if topic_id not in sizes:
            del changed.topics[topic_id]
            continue
        dropped = replayed(partitions)[quota:]
        pool.append((topic_id, dropped, False))
        for partition in dropped:
            del changed.topics[topic_id].partitions[partition]
        if not quota:
            del changed.topics[topic_id]
        quota = 0
    return quota, changed
