"""range: consecutive ranges of each topic, one per subscriber: Kafka's RangeAssignor of the server.

The first subscribers get one partition more if a topic does not divide evenly. Members keep nothing
of their old target, and topics with equally many partitions and the same subscribers are divided
alike.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from uuid import UUID

from kohort.assignors.base import java_sorted
from kohort.assignors.server.base import MemberSpec, Subscription, Target, Topics
from kohort.assignors.server.java_tables import by_bucket, roomy_capacity, uuid_hash
from kohort.assignors.server.numbered import NumberedTopics, distinct
from kohort.types import MemberId


def assign_range(
    members: Mapping[MemberId, MemberSpec], topics: Topics, *, homogeneous: bool
) -> dict[MemberId, Target]:
    """The target of each member."""
    ordered = _sorted(members)
    if homogeneous:
        subscription = members[ordered[0]].subscription
        targets = dict(zip(ordered, _alike(len(ordered), subscription, topics), strict=True))
    else:
        targets = _different(
            {member_id: members[member_id].subscription for member_id in ordered}, topics
        )
    return {member_id: targets[member_id] for member_id in members}


def _sorted(members: Mapping[MemberId, MemberSpec]) -> list[MemberId]:
    """Static members first, by their instance ids, then the others by their member ids."""
    static = {
        member.instance_id: member_id
        for member_id, member in members.items()
        if member.instance_id is not None
    }
    dynamic = [member_id for member_id, member in members.items() if member.instance_id is None]
    return [*map(static.__getitem__, java_sorted(static)), *java_sorted(dynamic)]


def _alike(members: int, subscription: Subscription, topics: Topics) -> Iterator[Target]:
    """The target of each of `members` members with this subscription."""
    capacity = roomy_capacity(len(subscription.topic_ids))
    order = by_bucket(subscription.topic_ids, uuid_hash, capacity)
    by_size = defaultdict[int, dict[UUID, None]](dict)
    for topic_id in order:
        by_size[topics[topic_id]][topic_id] = None
    divided = [(alike, _ranges(size, members)) for size, alike in sorted(by_size.items())]
    divided.reverse()
    target: dict[UUID, tuple[int, ...]] = dict.fromkeys(order, ())
    for position in range(members):
        while divided and len(divided[-1][1]) <= position:
            for topic_id in divided.pop()[0]:
                del target[topic_id]
        if len(divided) == 1:
            yield dict.fromkeys(target, divided[0][1][position])
            continue
        for alike, ranges in divided:
            # A dictionary made from another one does not hash the topic ids again, which is slow.
            target.update(dict.fromkeys(alike, ranges[position]))
        yield target.copy()


def _different(
    subscriptions: Mapping[MemberId, Subscription], topics: Topics
) -> dict[MemberId, Target]:
    """The target of each member, in the order of assignment."""
    numbered = NumberedTopics(topics)
    subscribed = numbered.subscriptions(subscriptions.values())
    subscribers = [0] * len(topics)
    for numbered_subscription in distinct(subscribed):
        for topic in numbered_subscription.topics:
            subscribers[topic] += len(numbered_subscription.members)
    remaining_ranges = list(map(_ranges, numbered.sizes, subscribers))
    for ranges in remaining_ranges:
        ranges.reverse()
    targets: dict[MemberId, Target] = {}
    for member_id, subscription in zip(subscriptions, subscribed, strict=True):
        inserted = [topic for topic in subscription.topics if remaining_ranges[topic]]
        order = numbered.in_order(inserted, roomy_capacity(subscription.names))
        targets[member_id] = {numbered.ids[topic]: remaining_ranges[topic].pop() for topic in order}
    return targets


def _ranges(partitions: int, members: int) -> list[tuple[int, ...]]:
    """Ranges of the members in turn; members without partitions are left out."""
    if not members:
        return []
    share, extra = divmod(partitions, members)
    numbers = tuple(range(partitions))
    border = extra * (share + 1)
    ranges = [numbers[start : start + share + 1] for start in range(0, border, share + 1)]
    if share:
        ranges += [numbers[start : start + share] for start in range(border, partitions, share)]
    return ranges
