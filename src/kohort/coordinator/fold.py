"""The fold over the log of a shard: logged state of all groups, and open transactions.

`Fold.replay` is the only writer of logged state, live and when loading. The records determine the
type of a group: a record of one type converts an empty group of the other type. Offsets stay.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from kohort.coordinator.classic import ClassicGroup, Group
from kohort.coordinator.config import PENDING_GROUP_WEIGHT
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer_records import ConsumerGroupMetadataRecord, ConsumerGroupRecord
from kohort.coordinator.records import (
    Entry,
    GroupMetadataRecord,
    OffsetCommitRecord,
    OffsetCommits,
    TransactionalOffsets,
    TransactionMarker,
    pack_offset,
)
from kohort.types import TopicPartition

AnyGroup: TypeAlias = Group | ConsumerGroup


class Fold:
    """The groups of one partition of `__consumer_offsets`, replayed from its log."""

    def __init__(self) -> None:
        self.groups: dict[str, AnyGroup] = {}
        self._transactions: dict[int, set[str]] = {}
        """Producer id → groups with pending offsets, now or before, in its open transaction."""
        self._ended: str | None = None
        """The consumer group that the latest group record ended, or None."""

    def replay(self, record: Entry) -> None:
        """Apply one entry of the log."""
        if isinstance(record, OffsetCommits):
            group_id, topic, partitions, values = record
            group = self.groups.get(group_id)
            if group is None:
                group = self.groups[group_id] = Group(group_id)
            group.offsets.store(topic, partitions, values)
            return
        if isinstance(record, TransactionalOffsets):
            self._replay_pending(record)
            return
        if isinstance(record, TransactionMarker):
            self._replay_marker(record)
            return
        if isinstance(record, OffsetCommitRecord):
            self._replay_offset(record)
        elif isinstance(record, GroupMetadataRecord):
            self._replay_classic(record)
        else:
            self._replay_consumer(record)

    def _replay_offset(self, record: OffsetCommitRecord) -> None:
        group_id, topic, partition = record.key
        group = self.groups.get(group_id)
        if record.value is not None:
            if group is None:
                group = self.groups[group_id] = Group(group_id)
            group.offsets.store(topic, (partition,), (pack_offset(*record.value),))
        elif group is not None:
            group.offsets.discard(topic, partition)
            self._forget_if_empty(group)

    def _replay_classic(self, record: GroupMetadataRecord) -> None:
        group = self.groups.get(record.key.group)
        downgraded, self._ended = self._ended == record.key.group, None
        if record.value is not None:
            if not isinstance(group, Group):
                group = Group(record.key.group, None if group is None else group.offsets)
                self.groups[group.id] = group
            group.logged = ClassicGroup.of(record.value, downgraded=downgraded)
        elif isinstance(group, Group):
            group.logged = None
            group.pending.clear()
            self._forget_if_empty(group)

    def _replay_consumer(self, record: ConsumerGroupRecord) -> None:
        group = self.groups.get(record.key.group)
        self._ended = None
        if isinstance(record, ConsumerGroupMetadataRecord) and record.value is None:
            self._ended = record.key.group
            if isinstance(group, ConsumerGroup):
                simple = self.groups[group.id] = Group(group.id, group.offsets)
                self._forget_if_empty(simple)
            return
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            if group is not None:
                group.pending.clear()
            group = ConsumerGroup(record.key.group, None if group is None else group.offsets)
            self.groups[group.id] = group
        group.replay(record)

    def _forget_if_empty(self, group: AnyGroup) -> None:
        if isinstance(group, Group) and not group.exists:
            del self.groups[group.id]

    def _replay_pending(self, record: TransactionalOffsets) -> None:
        producer_id, _, (group_id, topic, partitions, values) = record
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        group.offsets.store_pending(producer_id, topic, partitions, values)
        self._transactions.setdefault(producer_id, set()).add(group.id)

    def _replay_marker(self, record: TransactionMarker) -> None:
        # As in Kafka, a group without state stays until the next check for expired groups.
        for group_id in self._transactions.pop(record.producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(record.producer_id, commit=record.commit)

    def logged_state(self) -> Mapping[str, tuple[Any, Mapping[TopicPartition, Any], Any]]:
        """All state from the log, by group: the group, offsets, pending offsets."""
        return {
            group.id: (logged, dict(group.offsets), pending.state() if pending else {})
            for group in self.groups.values()
            for pending in (group.offsets.pending,)
            for logged in (_logged(group),)
            if logged is not None or group.offsets or pending
        }

    def count_pending(self, producer_id: int) -> int:
        """The weight of the pending offsets of a producer's open transaction."""
        groups = map(self.groups.get, self._transactions.get(producer_id, ()))
        every = (group.offsets.pending for group in groups if group is not None)
        counts = [pending.count(producer_id) for pending in every if pending is not None]
        return len(counts) * PENDING_GROUP_WEIGHT + sum(counts)


def _logged(group: AnyGroup) -> Any:
    return group.logged_state() if isinstance(group, ConsumerGroup) else group.logged
