"""uniform, if subscriptions differ.

Kafka's UniformHeterogeneousAssignmentBuilder.

Members keep partitions of topics that they still subscribe to. Each partition without an owner goes
to the subscriber with the lowest load, topic by topic. Then partitions are moved from the members
with the highest load to those with the lowest one, topic by topic, until no topic is left to
improve.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from kohort.assignors.server.base import MemberSpec, Target, Topics
from kohort.assignors.server.java_tables import grown, partition_order, roomy_capacity
from kohort.assignors.server.loads import Loads
from kohort.assignors.server.mutable_target import MutableTarget
from kohort.assignors.server.numbered import NumberedSubscription, NumberedTopics, distinct
from kohort.types import MemberId

MAX_ROUNDS = 16
UNOWNED = -1
_LONG = (1 << 64) - 1


def assign_heterogeneous(
    members: Mapping[MemberId, MemberSpec], topics: Topics
) -> dict[MemberId, Target]:
    """The target of each member; the same object as the old target if unchanged."""
    assignment = _Assignment(list(members.values()), topics)
    assignment.keep()
    assignment.assign_unowned()
    assignment.balance()
    return dict(zip(members, assignment.results(), strict=True))


class _Assignment:
    """The assignment of all members. Members and topics are known by their numbers."""

    def __init__(self, members: Sequence[MemberSpec], topics: Topics) -> None:
        self._members = members
        self._topics = NumberedTopics(topics)
        self._subscriptions = self._topics.subscriptions(member.subscription for member in members)
        self._subscribers = _subscribers(self._subscriptions, len(topics))
        self._owners = [[UNOWNED] * partitions for partitions in topics.values()]
        self._loads = [0] * len(members)
        self._order = sorted(
            (topic for topic, subscribers in enumerate(self._subscribers) if subscribers),
            key=self._rank,
        )
        """Topics by partitions per subscriber (most first), then by subscribers (fewest first)."""
        self._capacities = {
            topic: roomy_capacity(-(-self._topics.sizes[topic] // len(self._subscribers[topic])))
            for topic in self._order
        }
        """Number of buckets of a new set of a topic's partitions."""
        self._dropped: dict[int, list[UUID]] = {}
        """Member → topics of its old target that it does not subscribe to any more."""
        self._steps: list[list[tuple[int, int]]] = [[] for _ in members]
        """By member: (topic, partition) of each that it gets, (topic, ~partition) of each that it
        gives away."""

    def keep(self) -> None:
        """Keep partitions of topics that their owner still subscribes to."""
        number_of = self._topics.numbers.get
        for subscription in distinct(self._subscriptions):
            subscribed = frozenset(subscription.topics)
            for member in subscription.members:
                for topic_id, partitions in self._members[member].target.items():
                    topic = number_of(topic_id)
                    if topic in subscribed:
                        self._loads[member] += len(partitions)
                        owners = self._owners[topic]
                        for partition in partitions:
                            owners[partition] = member
                    else:
                        self._dropped.setdefault(member, []).append(topic_id)

    def assign_unowned(self) -> None:
        for topic in self._order:
            owners = self._owners[topic]
            if UNOWNED not in owners:
                continue
            unowned = [partition for partition, owner in enumerate(owners) if owner == UNOWNED]
            loads = Loads(self._loads, self._subscribers[topic])
            for partition, member in zip(unowned, loads.least_loaded(len(unowned)), strict=True):
                self._steps[member].append((topic, partition))
                self._loads[member] += 1
                owners[partition] = member

    def balance(self) -> None:
        """Balance the topics in turn until no topic changes any more."""
        shared = [topic for topic in self._order if len(self._subscribers[topic]) > 1]
        unchanged = 0
        for _ in range(MAX_ROUNDS):
            for topic in shared:
                unchanged = 0 if self._balance_topic(topic) else unchanged + 1
                if unchanged == len(shared):
                    return

    def results(self) -> list[Target]:
        return [self._result(member) for member in range(len(self._members))]

    def _balance_topic(self, topic: int) -> bool:
        """Move partitions of a topic. Returns whether any was moved."""
        loads_of_topic = list(map(self._loads.__getitem__, self._subscribers[topic]))
        if max(loads_of_topic) - min(loads_of_topic) <= 1:
            return False
        loads = Loads(self._loads, self._subscribers[topic])
        owners = self._owners[topic]
        remaining = defaultdict[int, list[int]](list)
        for partition, owner in enumerate(owners):
            remaining[owner].append(partition)
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
            self._steps[giver].append((topic, ~partition))
            self._loads[giver] -= 1
            self._steps[receiver].append((topic, partition))
            self._loads[receiver] += 1
            owners[partition] = receiver
            moved = True
        return moved

    def _rank(self, topic: int) -> tuple[float, int, int, int]:
        partitions, subscribers = self._topics.sizes[topic], len(self._subscribers[topic])
        topic_id = self._topics.ids[topic].int
        return (
            -partitions / subscribers,
            subscribers,
            _signed(topic_id >> 64),
            _signed(topic_id & _LONG),
        )

    def _result(self, member: int) -> Target:
        target, steps = self._members[member].target, self._steps[member]
        dropped = self._dropped.get(member, ())
        if not steps and not dropped:
            return target
        if not target:
            return self._created(steps)
        changed = MutableTarget(target)
        for topic_id in dropped:
            del changed.topics[topic_id]
        for topic, partition in steps:
            topic_id = self._topics.ids[topic]
            if partition >= 0:
                changed.add(topic_id, (partition,), self._capacities[topic])
            else:
                changed.remove(topic_id, ~partition)
        return changed.result()

    def _created(self, steps: Iterable[tuple[int, int]]) -> Target:
        """The target of a member without an old one; the same as by a `MutableTarget`."""
        partitions_of_topic: dict[int, dict[int, None]] = {}  # topic → its partitions
        entries = 0  # maximum number of topics, before a partition is added
        most: dict[int, int] = {}  # topic → its maximum number of partitions, before a removal
        for topic, partition in steps:
            if partition < 0:
                most[topic] = max(len(partitions_of_topic[topic]), most.get(topic, 0))
                del partitions_of_topic[topic][~partition]
                if not partitions_of_topic[topic]:
                    del partitions_of_topic[topic], most[topic]
                continue
            entries = max(entries, len(partitions_of_topic))
            if topic in partitions_of_topic:
                partitions_of_topic[topic][partition] = None
            else:
                partitions_of_topic[topic] = {partition: None}
        return {
            self._topics.ids[topic]: self._ordered(
                topic, partitions_of_topic[topic], most.get(topic, 0)
            )
            for topic in self._topics.in_order([*reversed(partitions_of_topic)], grown(1, entries))
        }

    def _ordered(self, topic: int, partitions: Collection[int], most: int) -> tuple[int, ...]:
        """Iteration order of a set of these partitions that once had `most` partitions."""
        if len(partitions) < 2:
            return tuple(partitions)
        return partition_order(
            partitions, grown(self._capacities[topic], max(len(partitions), most))
        )


def _subscribers(subscriptions: Iterable[NumberedSubscription], topics: int) -> list[list[int]]:
    """Members that subscribe to each of the `topics` topics, ascending."""
    subscribers: list[list[int]] = [[] for _ in range(topics)]
    for subscription in distinct(subscriptions):
        for topic in subscription.topics:
            subscribers[topic] += subscription.members
    for members in subscribers:
        members.sort()
    return subscribers


def _signed(word: int) -> int:
    """Half of an id as a Java long, Kafka's sort key."""
    return word - (1 << 64) if word >> 63 else word
