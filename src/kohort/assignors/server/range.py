"""range: consecutive ranges of each topic, one per subscriber: Kafka's RangeAssignor of the server.

The first subscribers get one partition more if a topic does not divide evenly. Members keep nothing
of their old target, and topics with equally many partitions and the same subscribers are divided
alike.
"""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from kohort.assignors.base import java_order
from kohort.assignors.server.base import MemberSpec, Target, Topics
from kohort.assignors.server.java_tables import by_bucket, roomy_capacity, uuid_hash
from kohort.types import MemberId


def assign_range(
    members: Mapping[MemberId, MemberSpec], topics: Topics, *, homogeneous: bool
) -> dict[MemberId, Target]:
    """The target of each member."""

    def order(member_id: MemberId) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    subscribers = Counter(
        topic_id for member in members.values() for topic_id in member.subscription.topic_ids
    )
    shares = {each: divmod(topics[each], count) for each, count in subscribers.items()}
    next_start = dict.fromkeys(subscribers, 0)
    left = dict(subscribers)
    assigned: dict[MemberId, Target] = {}
    for member_id in sorted(members, key=order):
        taken: dict[UUID, tuple[int, ...]] = {}
        subscription = members[member_id].subscription
        for topic_id in subscription.topic_ids:
            share, extra = shares[topic_id]
            has_extra = subscribers[topic_id] - left[topic_id] < extra
            left[topic_id] -= 1
            start = next_start[topic_id]
            next_start[topic_id] = end = start + share + has_extra
            if start < end:
                taken[topic_id] = tuple(range(start, end))
        capacity = roomy_capacity(
            len(subscription.topic_ids) if homogeneous else subscription.names
        )
        assigned[member_id] = {each: taken[each] for each in by_bucket(taken, uuid_hash, capacity)}
    return assigned
