"""Topics and subscriptions by numbers, for assignors of members with different subscriptions.

The hash of a topic id is computed in Python, and member ids are long strings. Therefore each topic
and member is numbered by its position, and tables of them are lists.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.assignors.server.base import Subscription, Topics
from kohort.assignors.server.java_tables import uuid_hash


@dataclass(slots=True)
class NumberedSubscription:
    """A subscription and its members."""

    topics: list[int]
    """In the order of the subscription."""
    names: int
    """Number of subscribed topics, existing or not."""
    members: list[int] = field(default_factory=list)
    """Ascending."""


class NumberedTopics:
    """The topics of a group."""

    def __init__(self, topics: Topics) -> None:
        self.ids = list(topics)
        self.sizes = list(topics.values())
        """Number of partitions of each topic."""
        self.numbers = {topic_id: number for number, topic_id in enumerate(self.ids)}
        self._hashes = [code ^ code >> 16 for code in map(uuid_hash, self.ids)]
        self._buckets: dict[int, list[int]] = {}
        """Capacity of a table → the bucket of each topic."""

    def subscriptions(self, subscriptions: Iterable[Subscription]) -> list[NumberedSubscription]:
        """Number the subscriptions; members with the same object get the same result object."""
        by_identity: dict[int, NumberedSubscription] = {}
        numbered = []
        for member, subscription in enumerate(subscriptions):
            cached = by_identity.get(id(subscription))
            if cached is None:
                topics = list(map(self.numbers.__getitem__, subscription.topic_ids))
                cached = NumberedSubscription(topics, subscription.names)
                by_identity[id(subscription)] = cached
            cached.members.append(member)
            numbered.append(cached)
        return numbered

    def in_order(self, inserted: list[int], capacity: int) -> list[int]:
        """Iteration order of a table of `capacity` buckets with these topics, inserted in order."""
        if len(inserted) < 2:
            return inserted
        buckets = self._buckets.get(capacity)
        if buckets is None:
            mask = capacity - 1
            buckets = self._buckets[capacity] = [hash_ & mask for hash_ in self._hashes]
        return sorted(inserted, key=buckets.__getitem__)


def distinct(subscriptions: Iterable[NumberedSubscription]) -> list[NumberedSubscription]:
    """Each subscription once."""
    return list({id(subscription): subscription for subscription in subscriptions}.values())
