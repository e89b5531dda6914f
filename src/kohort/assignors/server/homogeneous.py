"""uniform, if all members subscribe to the same topics.

Kafka's UniformHomogeneousAssignmentBuilder.

Every member gets an equal number of partitions, of whichever topics. Members keep what they had, up
to their quota; what remains is given to the members below their quota. If the partitions do not
divide evenly, the extra ones go to members that had them, else to the last members.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kohort.assignors.server.base import MemberSpec, Subscription, Target, Topics
from kohort.assignors.server.java_tables import by_bucket, copy_capacity, range_order, uuid_hash
from kohort.assignors.server.mutable_target import MutableTarget, replayed, topic_order
from kohort.types import MemberId


def assign_homogeneous(
    members: Mapping[MemberId, MemberSpec], topics: Topics
) -> dict[MemberId, Target]:
    """The target of each member; that of a member without a change is its old one itself."""
    subscription = next(iter(members.values())).subscription
    subscribed = frozenset(subscription.topic_ids)
    pool = Pool(_unowned(members, subscription, topics))
    low, extra = divmod(sum(topics[each] for each in subscribed), len(members))
    assigned: dict[MemberId, Target] = {}
    unfilled: list[tuple[MemberId, int, MutableTarget | None]] = []
    for position, (member_id, member) in enumerate(members.items()):
        has_extra = extra > 0
        quota, changed = _keep(member.target, subscribed, low + has_extra, pool)
        if quota and has_extra and len(members) - position > extra:
            # A later member may have more to keep.
            quota -= 1
            has_extra = False
        extra -= has_extra
        if quota:
            unfilled.append((member_id, quota, changed))
        assigned[member_id] = member.target if changed is None else changed.result()
    for member_id, quota, changed in unfilled:
        assigned[member_id] = _fill(assigned[member_id], changed, list(pool.take(quota)))
    return assigned


class Pool:
    """Partitions without an owner: first in, first out."""

    def __init__(self, runs: Iterator[tuple[UUID, Sequence[int]]]) -> None:
        self._runs = deque(runs)

    def append(self, topic_id: UUID, partitions: Sequence[int]) -> None:
        self._runs.append((topic_id, partitions))

    def take(self, count: int) -> Iterator[tuple[UUID, Sequence[int]]]:
        """Up to so many partitions, by topic."""
        while count and self._runs:
            topic_id, partitions = self._runs.popleft()
            if len(partitions) > count:
                self._runs.appendleft((topic_id, partitions[count:]))
            taken = partitions[:count]
            count -= len(taken)
            yield topic_id, taken


def _fill(
    target: Target, changed: MutableTarget | None, runs: Sequence[tuple[UUID, Sequence[int]]]
) -> Target:
    """The target with more partitions."""
    if not target and len(runs) == 1:
        topic_id, partitions = runs[0]
        if isinstance(partitions, range):
            return {topic_id: range_order(partitions)}
    filled = MutableTarget(target) if changed is None else changed
    for topic_id, partitions in runs:
        filled.add(topic_id, partitions)
    return filled.result()


def _unowned(
    members: Mapping[MemberId, MemberSpec], subscription: Subscription, topics: Topics
) -> Iterator[tuple[UUID, Sequence[int]]]:
    owned: dict[UUID, set[int]] = {}
    for member in members.values():
        for topic_id, partitions in member.target.items():
            owned.setdefault(topic_id, set()).update(partitions)
    order = by_bucket(subscription.topic_ids, uuid_hash, copy_capacity(subscription.names))
    for topic_id in order:
        unowned: Sequence[int] = range(topics[topic_id])
        if topic_id in owned:
            unowned = [each for each in unowned if each not in owned[topic_id]]
        if unowned:
            yield topic_id, unowned


def _keep(
    target: Target, subscribed: frozenset[UUID], quota: int, pool: Pool
) -> tuple[int, MutableTarget | None]:
    """What is left of the quota, and the changed copy if the target exceeds it or must change."""
    changed: MutableTarget | None = None
    for topic_id in topic_order(target):
        partitions = target[topic_id]
        if topic_id in subscribed and len(partitions) <= quota:
            quota -= len(partitions)
            continue
        if changed is None:
            changed = MutableTarget(target)
        if topic_id not in subscribed:
            del changed.topics[topic_id]
            continue
        dropped = replayed(partitions)[quota:]
        pool.append(topic_id, dropped)
        for partition in dropped:
            del changed.topics[topic_id].partitions[partition]
        if not quota:
            del changed.topics[topic_id]
        quota = 0
    return quota, changed
