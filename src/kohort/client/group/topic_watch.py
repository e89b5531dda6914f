"""Compares the topics with those of the assignment: brokers do not report changes to a member.

Changes that matter to a group:

- A subscribed topic has more partitions, is new, or deleted. Only the leader rebalances for that: a
  follower that joins again unchanged only gets its generation.
- A pattern matches other topics than before. The subscription changes, so every member rebalances.
- A topic of this member's partitions was deleted, or recreated under its name. A recreated topic is
  another one: its offsets mean nothing any more. kafka-go compares the numbers of partitions only.

A topic counts as deleted when it is missing twice: a broker that has just started may not know it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kohort.client.cluster import NO_ID, Metadata
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes since the assignment. Reasons are sentences; "" is no change."""

    rebalance: str = ""
    topics: tuple[str, ...] | None = None
    """The present subscription, if a pattern matches other topics."""
    lost: tuple[TopicPartition, ...] = ()
    lost_because: str = ""


class TopicWatch:
    """The topics as of the member's last check."""

    def __init__(self, pattern: str | None) -> None:
        self._pattern = None if pattern is None else re.compile(pattern)
        self.counts: dict[str, int] = {}
        """Number of partitions of the group's topics at the assignment; 0: no such topic."""
        self._initial_counts: dict[str, int] = {}
        """Number of partitions of each topic when the member began, or first subscribed to it."""
        self._has_all_initial = False
        self._missing: set[str] = set()
        self.ids: dict[str, UUID] = {}
        """Ids of the topics at the time of the assignment; without topics that have none."""

    @property
    def has_pattern(self) -> bool:
        """Whether this member matches topics with a pattern itself."""
        return self._pattern is not None

    def matched(self, metadata: Metadata) -> tuple[str, ...]:
        """The topics that the pattern subscribes to."""
        assert self._pattern is not None
        return tuple(
            sorted(
                name
                for name, topic in metadata.topics.items()
                if not topic.is_internal and topic.exists and self._pattern.fullmatch(name)
            )
        )

    def knows(self, topics: Iterable[str]) -> bool:
        """Whether all of these topics were requested."""
        return self.counts.keys() >= set(topics)

    def begin_with(self, metadata: Metadata) -> None:
        """A member with a pattern begins: these are all topics, and others will be new ones."""
        self._initial_counts = {name: partition_count(metadata, name) for name in metadata.topics}
        self._has_all_initial = True

    def initial_count(self, topic: str) -> int:
        """Number of partitions when this member began; later ones are new."""
        return self._initial_counts.get(topic, 0)

    def remember(
        self, metadata: Metadata, topics: Iterable[str], owned: Collection[TopicPartition]
    ) -> None:
        """Remember the topics of an assignment, from `metadata`.

        Topics of partitions that the member already owns keep their earlier id: if the id has
        changed, the next comparison finds the topic lost.
        """
        self.counts = {topic: partition_count(metadata, topic) for topic in topics}
        if not self._has_all_initial:
            self._initial_counts = self.counts | self._initial_counts
        self._missing.clear()
        of_held = {partition.topic for partition in owned}
        for name, topic in metadata.topics.items():
            if (
                topic.exists
                and topic.id is not None
                and topic.id != NO_ID
                and name not in of_held & self.ids.keys()
            ):
                self.ids[name] = topic.id

    def compare(
        self,
        metadata: Metadata,
        *,
        subscribed: tuple[str, ...],
        owned: Collection[TopicPartition],
        is_leader: bool,
    ) -> Changes:
        """Changes since the assignment that concern this member."""
        if self._pattern is not None and (matched := self.matched(metadata)) != subscribed:
            return Changes(rebalance="the topics that match the pattern changed", topics=matched)
        lost, because = self._lost(metadata, owned)
        changed = [
            topic
            for topic, count in self.counts.items()
            if is_leader and partition_count(metadata, topic) != count
        ]
        # A topic counts as deleted when it is missing twice.
        missing = {topic for topic in self.counts if not _exists(metadata, topic)}
        rebalancing = [topic for topic in changed if topic not in missing or topic in self._missing]
        self._missing = missing
        names = ", ".join(sorted(rebalancing))
        return Changes(
            rebalance=f"the partitions of {names} changed" if rebalancing else "",
            lost=lost,
            lost_because=because,
        )

    def _lost(
        self, metadata: Metadata, owned: Collection[TopicPartition]
    ) -> tuple[tuple[TopicPartition, ...], str]:
        recreated = {
            topic
            for topic in {partition.topic for partition in owned}
            if self._is_another(metadata, topic)
        }
        deleted = {
            partition.topic
            for partition in owned
            if partition.topic in self._missing and not _exists(metadata, partition.topic)
        }
        lost = tuple(partition for partition in owned if partition.topic in recreated | deleted)
        causes = [f"topic {topic} was deleted and recreated" for topic in sorted(recreated)]
        return lost, "; ".join(causes + [f"topic {topic} was deleted" for topic in sorted(deleted)])

    def _is_another(self, metadata: Metadata, topic: str) -> bool:
        now = metadata.topics.get(topic)
        return now is not None and now.is_another(self.ids.get(topic))

    def forget(self, topics: Iterable[str]) -> None:
        """Take a topic of one of these names for a new one.

        The ids stay until the next assignment of the topics: offsets of the old topic must not be
        committed for the new one.
        """
        self._initial_counts |= dict.fromkeys(topics, 0)


def partition_count(metadata: Metadata, topic: str) -> int:
    """Number of partitions; 0 if there is no such topic."""
    known_topic = metadata.topics.get(topic)
    return len(known_topic.partitions) if known_topic is not None and known_topic.exists else 0


def topics_for_assignor(
    metadata: Metadata, topics: Iterable[str]
) -> Mapping[str, tuple[frozenset[str], ...]]:
    """For each topic and partition the racks of its replicas."""
    racks = {node: broker.rack for node, broker in metadata.brokers.items()}
    return {
        topic: tuple(
            frozenset(
                rack
                for node in partition_metadata.replicas
                if (rack := racks.get(node)) is not None
            )
            for partition_metadata in sorted(
                metadata.topics[topic].partitions, key=lambda partition: partition.index
            )
        )
        for topic in topics
        if partition_count(metadata, topic)
    }


def _exists(metadata: Metadata, topic: str) -> bool:
    return topic in metadata.topics and metadata.topics[topic].exists
