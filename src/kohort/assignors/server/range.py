"""range: consecutive ranges of each topic, one per subscriber: Kafka's RangeAssignor of the server.

The first subscribers get one partition more if a topic does not divide evenly. Members keep nothing
of their old target, and topics with equally many partitions and the same subscribers are divided
alike.
"""

from collections.abc import Mapping
from uuid import UUID

from kohort.assignors.base import java_order
from kohort.assignors.server.base import MemberSpec, Subscription, Target, Topics
from kohort.assignors.server.java_tables import by_bucket, roomy_capacity, uuid_hash
from kohort.types import MemberId


def assign_range(
    members: Mapping[MemberId, MemberSpec], topics: Topics, *, homogeneous: bool
) -> dict[MemberId, Target]:
    """The target of each member."""

    def order(member_id: MemberId) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    ordered = sorted(members, key=order)
    subscribers: dict[UUID, list[MemberId]] = {}
    if homogeneous:
        subscribers = dict.fromkeys(members[ordered[0]].subscription.topic_ids, ordered)
    else:
        for member_id in ordered:
            for topic_id in members[member_id].subscription.topic_ids:
                subscribers.setdefault(topic_id, []).append(member_id)
    taken: dict[MemberId, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in members}
    for topic_id, interested in subscribers.items():
        share, extra = divmod(topics[topic_id], len(interested))
        start = 0
        for position, member_id in enumerate(interested if share else interested[:extra]):
            end = start + share + (position < extra)
            taken[member_id][topic_id] = tuple(range(start, end))
            start = end
    return {
        member_id: _in_order(taken[member_id], member.subscription, homogeneous=homogeneous)
        for member_id, member in members.items()
    }


def _in_order(
    taken: dict[UUID, tuple[int, ...]], subscription: Subscription, *, homogeneous: bool
) -> Target:
    """The target in Kafka's order: its topics are inserted in the order of the subscription."""
    if len(taken) < 2:
        return taken
    inserted = taken if homogeneous else [each for each in subscription.topic_ids if each in taken]
    capacity = roomy_capacity(len(subscription.topic_ids) if homogeneous else subscription.names)
    return {topic_id: taken[topic_id] for topic_id in by_bucket(inserted, uuid_hash, capacity)}
