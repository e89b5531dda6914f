"""Pending offsets of one group in open transactions (KIP-98, KIP-447).

An offset that is committed in a transaction is pending until its producer's marker:

| record | effect |
|---|---|
| COMMIT marker | commits it, unless a later record committed another offset |
| ABORT marker | drops it |
| tombstone of the partition | drops it in all transactions |

Until then its partition is unstable, even if the offset is already superseded.

Source: OffsetMetadataManager and its OpenTransactions of Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from sys import intern
from typing import TypeAlias

from kohort.types import TopicPartition

_Offsets: TypeAlias = dict[int, tuple[int, bytes]]
"""Partition → number of the record, packed value."""


class PendingOffsets:
    """Producer → partition → offset; only `Shard.replay` changes it."""

    __slots__ = ("_last_commits", "_record", "_topics")

    def __init__(self) -> None:
        self._record = 0
        """Counter of records; a higher number is a later record."""
        self._topics: dict[str, dict[int, _Offsets]] = {}
        """Topic → producer id → offsets, none empty."""
        self._last_commits: dict[str, dict[int, int]] = {}
        """Topic with pending offsets → partition → number of its last committed record."""

    def __repr__(self) -> str:
        return f"<PendingOffsets of {len(self._topics)} topics>"

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __len__(self) -> int:
        """Number of pending offsets of all producers."""
        return sum(
            len(offsets) for producers in self._topics.values() for offsets in producers.values()
        )

    def add(
        self, producer_id: int, topic: str, partitions: Sequence[int], values: Sequence[bytes]
    ) -> None:
        """Add packed values, one per partition."""
        self._record += 1
        producers = self._topics.setdefault(intern(topic), {})
        offsets = producers.setdefault(producer_id, {})
        numbered = zip(repeat(self._record, len(values)), values, strict=True)
        offsets.update(zip(partitions, numbered, strict=True))

    def committed(self, topic: str, partitions: Sequence[int]) -> None:
        """Note committed offsets that are later than the pending ones of these partitions."""
        if topic in self._topics:
            self._record += 1
            self._note_commits(topic, dict.fromkeys(partitions, self._record))

    def end(
        self, producer_id: int, *, commit: bool
    ) -> Iterator[tuple[str, Sequence[int], Sequence[bytes]]]:
        """Remove the offsets of a producer; with `commit`, yield those to commit, by topic."""
        for topic, producers in tuple(self._topics.items()):
            offsets = producers.pop(producer_id, None)
            if offsets is None:
                continue
            if commit:
                yield self._commit(topic, offsets)
            self._forget_if_empty(topic)

    def _commit(self, topic: str, offsets: _Offsets) -> tuple[str, Sequence[int], Sequence[bytes]]:
        last = self._last_commits.get(topic)
        if last:
            offsets = {
                partition: offset
                for partition, offset in offsets.items()
                if offset[0] > last.get(partition, 0)
            }
        if self._topics[topic]:
            self._note_commits(
                topic, {partition: number for partition, (number, _) in offsets.items()}
            )
        return topic, tuple(offsets), [value for _, value in offsets.values()]

    def _note_commits(self, topic: str, numbers: Mapping[int, int]) -> None:
        self._last_commits.setdefault(topic, {}).update(numbers)

    def discard(self, topic: str, partition: int) -> None:
        """Remove the offsets of a partition in all transactions."""
        producers = self._topics.get(topic)
        if producers is not None:
            for producer_id, offsets in tuple(producers.items()):
                if offsets.pop(partition, None) is not None and not offsets:
                    del producers[producer_id]
            self._forget_if_empty(topic)

    def _forget_if_empty(self, topic: str) -> None:
        if not self._topics[topic]:
            del self._topics[topic]
            self._last_commits.pop(topic, None)

    @property
    def topics(self) -> Set[str]:
        """Topics with a pending offset."""
        return self._topics.keys()

    def unstable(self, topic: str, among: Set[int] | None = None) -> set[int]:
        """Partitions of a topic with a pending offset; `among` these if given."""
        producers = self._topics.get(topic, {}).values()
        if among is None:
            return set().union(*producers)
        return set().union(*(among & offsets.keys() for offsets in producers))

    def stable(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The partitions without a pending offset."""
        unstable = self.unstable_among(partitions)
        return [tp for tp in partitions if tp.partition not in unstable.get(tp.topic, ())]

    def unstable_among(self, partitions: Iterable[TopicPartition]) -> Mapping[str, Set[int]]:
        """The partitions with a pending offset, by topic."""
        by_topic: dict[str, set[int]] = {}
        for topic, partition in partitions:
            if topic in self._topics:
                by_topic.setdefault(topic, set()).add(partition)
        return {topic: self.unstable(topic, among) for topic, among in by_topic.items()}

    def partitions(self, topics: Set[str] | None = None) -> Iterator[TopicPartition]:
        """All partitions with a pending offset, or those of some topics."""
        for topic in self.topics if topics is None else self.topics & topics:
            for partition in self.unstable(topic):
                yield TopicPartition(topic, partition)

    def count(self, producer_id: int) -> int:
        """Number of pending offsets of a producer."""
        return sum(len(producers.get(producer_id, ())) for producers in self._topics.values())

    def state(self) -> Mapping[TopicPartition, Sequence[tuple[int, bytes]]]:
        """(producer id, value) pairs by partition, in the order of the log.

        A superseded value, which can no longer be committed, is b"".
        """
        by_partition: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}
        for topic, producers in self._topics.items():
            last = self._last_commits.get(topic, {})
            for producer_id, offsets in producers.items():
                for partition, (number, value) in offsets.items():
                    late = number > last.get(partition, 0)
                    by_partition.setdefault(TopicPartition(topic, partition), []).append(
                        (number if late else 0, producer_id, value if late else b"")
                    )
        return {
            partition: [(producer_id, value) for _, producer_id, value in sorted(entries)]
            for partition, entries in by_partition.items()
        }
