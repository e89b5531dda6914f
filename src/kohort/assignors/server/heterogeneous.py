"""uniform, if subscriptions differ.

Kafka's UniformHeterogeneousAssignmentBuilder.

Members keep what they still subscribe to. Each partition without an owner goes to the subscriber
with the lowest load, topic by topic. Then partitions are moved from the members with the highest
load to those with the lowest one, topic by topic, until no topic is left to improve.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from kohort.assignors.server.base import MemberSpec, Target, Topics
from kohort.assignors.server.java_tables import roomy_capacity
from kohort.assignors.server.loads import Loads
from kohort.assignors.server.mutable_target import MutableTarget
from kohort.types import MemberId

MAX_ROUNDS = 16
UNOWNED = -1
_LONG = (1 << 64) - 1


def assign_heterogeneous(
    members: Mapping[MemberId, MemberSpec], topics: Topics
) -> dict[MemberId, Target]:
    """The target of each member; that of a member without a change is its old one itself."""
    assignment = _Assignment(list(members.values()), topics)
    assignment.keep()
    assignment.assign_unowned()
    assignment.balance()
    return dict(zip(members, assignment.results(), strict=True))


class _Assignment:
    """The assignment of all members, who are known by their numbers."""

    def __init__(self, members: Sequence[MemberSpec], topics: Topics) -> None:
        self._members = members
        self._subscribers: dict[UUID, list[int]] = {}
        for number, member in enumerate(members):
            for topic_id in member.subscription.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {topic_id: [UNOWNED] * topics[topic_id] for topic_id in self._subscribers}
        self._loads = [0] * len(members)
        self._changed: list[MutableTarget | None] = [None] * len(members)

    def keep(self) -> None:
        """Keep partitions of topics that their owner still subscribes to."""
        for number, member in enumerate(self._members):
            subscribed = frozenset(member.subscription.topic_ids)
            for topic_id, partitions in member.target.items():
                if topic_id in subscribed:
                    self._loads[number] += len(partitions)
                    for partition in partitions:
                        self._owners[topic_id][partition] = number
                else:
                    del self._target(number).topics[topic_id]

    def assign_unowned(self) -> None:
        for topic_id in self._ordered():
            owners = self._owners[topic_id]
            if UNOWNED not in owners:
                continue
            loads = Loads(self._loads, self._subscribers[topic_id])
            for partition, owner in enumerate(owners):
                if owner == UNOWNED:
                    self._add(topic_id, partition, loads.next_least_loaded())

    def balance(self) -> None:
        """Go through the topics in turn, until none changed since its last turn."""
        shared = [each for each in self._ordered() if len(self._subscribers[each]) > 1]
        unchanged = 0
        for _ in range(MAX_ROUNDS):
            for topic_id in shared:
                unchanged = 0 if self._balance_topic(topic_id) else unchanged + 1
                if unchanged == len(shared):
                    return

    def results(self) -> list[Target]:
        return [
            member.target if changed is None else changed.result()
            for member, changed in zip(self._members, self._changed, strict=True)
        ]

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Move partitions of a topic; whether any was moved."""
        loads = Loads(self._loads, self._subscribers[topic_id])
        if loads.spread <= 1:
            return False
        owners = self._owners[topic_id]
        remaining: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            remaining.setdefault(owner, []).append(partition)
        moved = False
        while not loads.balanced:
            giver = loads.next_most_loaded()
            while giver is not None and not remaining.get(giver):
                loads.exclude_most_loaded()
                giver = loads.next_most_loaded()
            if giver is None:
                break
            partition = remaining[giver].pop()
            receiver = loads.next_least_loaded()
            if loads.balanced:
                break
            self._remove(topic_id, partition, giver)
            self._add(topic_id, partition, receiver)
            moved = True
        return moved

    def _ordered(self) -> list[UUID]:
        """Topics with most partitions per subscriber first, then those with few subscribers."""

        def order(topic_id: UUID) -> tuple[float, int, int, int]:
            partitions, subscribers = len(self._owners[topic_id]), len(self._subscribers[topic_id])
            high, low = topic_id.int >> 64, topic_id.int & _LONG
            return -partitions / subscribers, subscribers, _signed(high), _signed(low)

        return sorted(self._subscribers, key=order)

    def _target(self, number: int) -> MutableTarget:
        found = self._changed[number]
        if found is None:
            found = self._changed[number] = MutableTarget(self._members[number].target)
        return found

    def _add(self, topic_id: UUID, partition: int, number: int) -> None:
        owners = self._owners[topic_id]
        share = -(-len(owners) // len(self._subscribers[topic_id]))
        capacity = roomy_capacity(share)
        self._target(number).add(topic_id, (partition,), capacity)
        owners[partition] = number
        self._loads[number] += 1

    def _remove(self, topic_id: UUID, partition: int, number: int) -> None:
        target = self._target(number)
        partitions = target.topics[topic_id].partitions
        del partitions[partition]
        if not partitions:
            del target.topics[topic_id]
        self._loads[number] -= 1


def _signed(word: int) -> int:
    """Half of an id as Java's long, by which Kafka sorts."""
    return word - (1 << 64) if word >> 63 else word
