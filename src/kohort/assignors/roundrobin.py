"""roundrobin: all partitions of all topics in turn, as Java's RoundRobinAssignor.

Partitions are sorted by topic and index, members as in Java (static ones first). The turn continues
from topic to topic and skips members that are not subscribed. It is balanced when all subscriptions
are alike. It is not sticky: a join or leave changes nearly every member's partitions.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from kohort.assignors.base import Assignment, Assignor, Member, Topics, java_order, member_order
from kohort.types import MemberId, TopicPartition


class RoundRobinAssignor(Assignor):
    """Java's RoundRobinAssignor: the same assignment, partition by partition."""

    name = "roundrobin"

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[MemberId, Assignment]:
        ordered = sorted(members, key=member_order)
        dealt: list[list[TopicPartition]] = [[] for _ in ordered]
        turn = 0
        subscribers = subscribers_by_topic(topics, ordered)
        for topic in sorted(subscribers, key=java_order):
            turns = subscribers[topic]
            index = bisect_left(turns, turn)
            for partition in range(len(topics[topic])):
                owner_turn = turns[(index + partition) % len(turns)]
                dealt[owner_turn].append(TopicPartition(topic, partition))
                turn = owner_turn + 1  # the search wraps after the last member
        return {
            member.member_id: Assignment(partitions=tuple(partitions))
            for member, partitions in zip(ordered, dealt, strict=True)
        }


def subscribers_by_topic(topics: Topics, members: Sequence[Member]) -> dict[str, list[int]]:
    """Map each existing topic with partitions to its subscribers' positions in `members`."""
    subscribers: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        for topic in set(member.topics):
            if topics.get(topic):
                subscribers.setdefault(topic, []).append(position)
    return subscribers
