"""The committed offsets of one group, kept as the bytes that their records have in the log.

A committed offset is written far more often than it is read. Its bytes (`records.pack_offset`) are
needed for the log anyway. They take less than half the memory of a value with fields, and the
garbage collector does not traverse them. Readers see an ordinary mapping from partitions to values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from sys import intern

from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.coordinator.records import OffsetCommitValue, unpack_offset
from kohort.types import TopicPartition


class CommittedOffsets(Mapping[TopicPartition, OffsetCommitValue]):
    """Partition → committed offset; only `Shard.replay` changes it."""

    __slots__ = ("_shared", "_topics", "pending")

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, bytes]] = {}
        """Topic → partition → packed value; no topic is empty."""
        self._shared: set[str] = set()
        """Topics whose offsets are shared with a snapshot: they are copied before a change."""
        self.pending: PendingOffsets | None = None
        """Offsets of open transactions, not committed yet; None if there are none."""

    def __repr__(self) -> str:
        return f"<CommittedOffsets {len(self)} of {len(self._topics)} topics>"

    def store(self, topic: str, partitions: Sequence[int], values: Sequence[bytes]) -> None:
        """Store packed values, one per partition."""
        if self.pending is not None:
            self.pending.committed(topic, partitions)
        own_offsets = self._own(topic)
        if own_offsets is None:
            own_offsets = self._topics[intern(topic)] = {}
        if len(values) == 1:
            own_offsets[partitions[0]] = values[0]
        else:
            own_offsets.update(zip(partitions, values, strict=True))

    def store_pending(
        self, producer_id: int, topic: str, partitions: Sequence[int], values: Sequence[bytes]
    ) -> None:
        """Keep packed values, one per partition, until the transaction ends."""
        if self.pending is None:
            self.pending = PendingOffsets()
        self.pending.add(producer_id, topic, partitions, values)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Store the pending offsets of a producer, or drop them."""
        pending, self.pending = self.pending, None
        if pending is not None:
            for topic, partitions, values in pending.end(producer_id, commit=commit):
                self.store(topic, partitions, values)
            self.pending = pending or None

    def discard(self, topic: str, partition: int) -> None:
        """Remove the offset of a partition and its pending offsets, if any."""
        if self.pending is not None:
            self.pending.discard(topic, partition)
            self.pending = self.pending or None
        own_offsets = self._own(topic)
        if (
            own_offsets is not None
            and own_offsets.pop(partition, None) is not None
            and not own_offsets
        ):
            del self._topics[topic]

    @property
    def topics(self) -> Iterable[str]:
        """Topics with an offset."""
        return self._topics.keys()

    def of_topics(self, topics: frozenset[str]) -> Iterator[TopicPartition]:
        """Partitions of these topics with an offset, including a pending one.

        Other topics add no cost.
        """
        yield from self.only_pending(topics)
        for topic in self._topics.keys() & topics:
            for partition in self._topics[topic]:
                yield TopicPartition(topic, partition)

    def only_pending(self, topics: frozenset[str] | None = None) -> Iterator[TopicPartition]:
        """Partitions of all or some topics that have only pending offsets."""
        if self.pending is not None:
            for partition in self.pending.partitions(topics):
                if partition not in self:
                    yield partition

    def concerns(self, partition: TopicPartition) -> bool:
        """Whether the partition has an offset, including a pending one."""
        if partition in self:
            return True
        return self.pending is not None and not self.pending.stable((partition,))

    def remove_some(self, count: int) -> Iterator[TopicPartition]:
        """Remove all offsets of at most `count` partitions, and yield these partitions."""
        while count and self._topics:
            topic = next(reversed(self._topics))
            partition = next(reversed(self._topics[topic]))
            self.discard(topic, partition)
            count -= 1
            yield TopicPartition(topic, partition)
        for topic, partition in tuple(islice(self.only_pending(), count)):
            self.discard(topic, partition)
            yield TopicPartition(topic, partition)

    def snapshot(self) -> "CommittedOffsets":
        """A copy that later commits do not change, for reading only.

        Its cost is proportional to the topics: their offsets are copied at their next change.
        """
        copy = CommittedOffsets()
        copy._topics = self._topics.copy()
        self._shared.update(self._topics)
        return copy

    def _own(self, topic: str) -> dict[int, bytes] | None:
        """The offsets of a topic, for a change; None if it has none."""
        offsets = self._topics.get(topic)
        if topic in self._shared:
            self._shared.discard(topic)
            if offsets is not None:
                offsets = self._topics[topic] = offsets.copy()
        return offsets

    def __getitem__(self, key: TopicPartition) -> OffsetCommitValue:
        topic, partition = key
        offsets = self._topics.get(topic)
        if offsets is None:
            raise KeyError(key)
        return unpack_offset(offsets[partition])

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, offsets in self._topics.items():
            for partition in offsets:
                yield TopicPartition(topic, partition)

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[1] in self._topics.get(key[0], ())
