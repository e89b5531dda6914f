"""Topics and subscriptions by numbers, for assignors of members with different subscriptions.

The hash of a topic id is Python code, and a member's id is a long string. So each topic and each
member gets its position as its number, and tables of them are lists.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.assignors.server.base import Subscription, Topics
from kohort.assignors.server.java_tables import uuid_hash


@dataclass(slots=True)
class NumberedSubscription:
    """A subscription, and who has it."""

    topics: list[int]
    """In the order of the subscription."""
    names: int
    """How many topics are subscribed to, existing or not."""
    members: list[int] = field(default_factory=list)
    """Ascending."""


class NumberedTopics:
    """The topics of a group."""

    def __init__(self, topics: Topics) -> None:
        self.ids = list(topics)
        self.sizes = list(topics.values())
        """How many partitions each has."""
        self.numbers = {topic_id: number for number, topic_id in enumerate(self.ids)}
        self._hashes = [code ^ code >> 16 for code in map(uuid_hash, self.ids)]
        self._buckets: dict[int, list[int]] = {}
        """Capacity of a table → the bucket of each topic."""

    def subscriptions(self, given: Iterable[Subscription]) -> list[NumberedSubscription]:
        """Those of the members; members with the same object get the same one."""
        known: dict[int, NumberedSubscription] = {}
        numbered = []
        for member, subscription in enumerate(given):
            found = known.get(id(subscription))
            if found is None:
                topics = list(map(self.numbers.__getitem__, subscription.topic_ids))
                found = NumberedSubscription(topics, subscription.names)
                known[id(subscription)] = found
            found.members.append(member)
            numbered.append(found)
        return numbered

    def in_order(self, inserted: list[int], capacity: int) -> list[int]:
        """Topics, given in the order of their insertion, as a table of so many buckets has them."""
        if len(inserted) < 2:
            return inserted
        buckets = self._buckets.get(capacity)
        if buckets is None:
            mask = capacity - 1
            buckets = self._buckets[capacity] = [each & mask for each in self._hashes]
        return sorted(inserted, key=buckets.__getitem__)


def distinct(subscriptions: Iterable[NumberedSubscription]) -> list[NumberedSubscription]:
    """Each subscription once."""
    return list({id(each): each for each in subscriptions}.values())
