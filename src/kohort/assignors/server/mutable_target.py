"""A mutable target assignment with the iteration orders of Kafka's copy."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from kohort.assignors.server.base import Target
from kohort.assignors.server.java_tables import (
    DEFAULT_CAPACITY,
    by_bucket,
    copy_capacity,
    grown,
    partition_order,
    table_capacity,
    uuid_hash,
)


def topic_order(target: Target) -> list[UUID]:
    """Topics of a target assignment as Kafka iterates over them after replaying its record."""
    if len(target) < 2:
        return list(target)
    return by_bucket(target, uuid_hash, grown(DEFAULT_CAPACITY, len(target)))


def replayed(partitions: tuple[int, ...]) -> tuple[int, ...]:
    """Partitions of a topic as Kafka iterates over them after replaying their record."""
    return partition_order(partitions, copy_capacity(len(partitions)))


class PartitionSet:
    """Partitions of one topic, in the order of their insertion."""

    __slots__ = ("capacity", "partitions")

    def __init__(self, partitions: Iterable[int], capacity: int) -> None:
        self.partitions = dict.fromkeys(partitions)
        self.capacity = capacity

    def add(self, partitions: Iterable[int]) -> None:
        self.partitions.update(dict.fromkeys(partitions))
        self.capacity = grown(self.capacity, len(self.partitions))

    def order(self) -> tuple[int, ...]:
        return partition_order(self.partitions, self.capacity)


class MutableTarget:
    """A copy of a target assignment."""

    __slots__ = ("_capacity", "_created", "topics")

    def __init__(self, target: Target) -> None:
        self.topics = {
            topic_id: PartitionSet(replayed(target[topic_id]), copy_capacity(len(target[topic_id])))
            for topic_id in topic_order(target)
        }
        self._created: dict[UUID, None] = {}
        self._capacity = grown(table_capacity(len(target)), len(target))

    def add(
        self, topic_id: UUID, partitions: Sequence[int], capacity: int = DEFAULT_CAPACITY
    ) -> None:
        """Add partitions of a topic; a missing set is created with `capacity` buckets."""
        # `computeIfAbsent` grows the table before it inserts, and inserts at a bucket's front.
        self._capacity = grown(self._capacity, len(self.topics))
        partition_set = self.topics.get(topic_id)
        if partition_set is None:
            partition_set = self.topics[topic_id] = PartitionSet((), capacity)
            self._created.pop(topic_id, None)
            self._created[topic_id] = None
            if len(partitions) > 1:
                # Kafka calls it again for each further partition.
                self._capacity = grown(self._capacity, len(self.topics))
        partition_set.add(partitions)

    def remove(self, topic_id: UUID, partition: int) -> None:
        """Remove a partition, which must be present."""
        partitions = self.topics[topic_id].partitions
        del partitions[partition]
        if not partitions:
            del self.topics[topic_id]

    def result(self) -> Target:
        if len(self.topics) < 2:
            return {
                topic_id: partition_set.order() for topic_id, partition_set in self.topics.items()
            }
        created = [topic_id for topic_id in reversed(self._created) if topic_id in self.topics]
        others = [topic_id for topic_id in self.topics if topic_id not in self._created]
        ordered = by_bucket(created + others, uuid_hash, self._capacity)
        return {topic_id: self.topics[topic_id].order() for topic_id in ordered}
