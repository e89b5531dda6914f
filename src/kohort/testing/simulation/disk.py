"""The disk of a simulated server: logs in memory that survive its process.

The server writes to it as to `LocalDirectory`. With `durability=fsync` an append is durable once a
simulated fsync has ended. After a killed process everything that was written is there. After a
power loss each log ends somewhere behind its last synced record, perhaps in the middle of a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, cast
from uuid import UUID

from kohort.log import scan
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.durability import GroupCommit
from kohort.log.index import SegmentIndex
from kohort.log.memory import MemoryBacking, MemoryDirectory, MemoryPlaces
from kohort.log.partition import PartitionLog
from kohort.log.partition_mark import new_cluster_id
from kohort.log.segment import Segment
from kohort.log.stores import MemoryStore
from kohort.protocol.batches import Buffer
from kohort.types import TopicPartition

_INDEX_INTERVAL: Final = 4096


class StoredBytes(MemoryStore):
    """A file, with the other files of its segment."""

    __slots__ = ("_beside", "created", "modified")

    def __init__(self, data: bytearray | None = None) -> None:
        super().__init__(data)
        self.created = self.modified = 0
        """Times of the file; producers are forgotten by them."""
        self._beside: dict[str, StoredBytes] = {}

    def beside(self, suffix: str) -> "StoredBytes":
        return self._beside.setdefault(suffix, StoredBytes())

    def copy(self) -> "StoredBytes":
        """The same bytes, in files of their own."""
        copied = StoredBytes(bytearray(self.read(0, self.size)))
        copied._beside = {suffix: store.copy() for suffix, store in self._beside.items()}
        return copied


@dataclass(slots=True)
class StoredLog:
    """What the disk has of one log."""

    segments: list[tuple[int, StoredBytes]] = field(default_factory=list)
    """Base offset and batches of each."""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    producers: bytes = b""


class Disk:
    """All that a server keeps from one of its processes to the next."""

    def __init__(self) -> None:
        self.cluster_id = new_cluster_id()
        self.topic_ids: dict[TopicPartition, UUID] = {}
        self.logs: dict[TopicPartition, StoredLog] = {}
        self.has_lost_power = False
        """Whether the last process ended with the power of its machine."""


class DiskDirectory(MemoryDirectory):
    """The `LogDirectory` of one process of a server."""

    def __init__(self, disk: Disk, *, durable: bool) -> None:
        """`durable`: appends are acknowledged when they are synced."""
        super().__init__(disk.cluster_id)
        self._disk = disk
        self._durable = durable
        self._backings: dict[TopicPartition, DiskBacking] = {}
        self.directories = _Marks(self._logs, disk)

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        synced_by_owner: bool = False,
        leader_epoch: int = 0,  # noqa: ARG002 - one server alone leads in epoch 0
    ) -> PartitionLog:
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs[topic_partition] = self._open(
                topic_partition, config, in_commits=self._durable and not synced_by_owner
            )
        return log

    def _open(
        self, topic_partition: TopicPartition, config: LogConfig, *, in_commits: bool
    ) -> PartitionLog:
        stored = self._disk.logs.setdefault(topic_partition, StoredLog())
        backing = self._backings[topic_partition] = DiskBacking(stored)
        segments = list(_recovered(stored, config.is_compacted)) or [backing.new_segment(0)]
        log = PartitionLog(
            topic_partition,
            config,
            backing,
            segments,
            stored.checkpoint,
            partial(GroupCommit, executor=None) if in_commits else None,  # type: ignore[arg-type]  # the simulated loop needs none
        )
        backing.synced(log.end_offset)
        log.restore_producers(_go_on, crashed=self._disk.has_lost_power)
        return log

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        super().remove(topic_partition, topic_id)
        self._disk.logs.pop(topic_partition, None)

    def save(self) -> None:
        """The process is killed: the disk has everything that it wrote."""
        self._disk.has_lost_power = False
        for topic_partition, log in self._logs.items():
            stored = self._disk.logs[topic_partition]
            stored.segments = [(segment.base_offset, _file_of(segment)) for segment in log.segments]

    def lose_unsynced(self, random: Random) -> int:
        """The machine has lost its power, after `save`; returns how many bytes were lost."""
        self._disk.has_lost_power = True
        lost = 0
        for topic_partition in self._logs:
            stored = self._disk.logs[topic_partition]
            lost += _cut(stored, self._backings[topic_partition].durable_end, random)
        return lost

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self.save()
        self._logs.clear()


class DiskBacking(MemoryBacking):
    """The storage of one log. Simulated fsyncs are functions that the loop calls later."""

    __slots__ = ("_stored", "durable_end")

    def __init__(self, stored: StoredLog) -> None:
        self._stored = stored
        self.durable_end = 0
        """End offset of what a power loss leaves."""

    def new_segment(self, base_offset: int, interval: int = _INDEX_INTERVAL) -> Segment:
        return _segment(base_offset, StoredBytes(), interval)

    def synced(self, end_offset: int) -> None:
        self.durable_end = max(self.durable_end, end_offset)

    def all_synced(self, end_offset: int) -> None:
        self.synced(end_offset)

    def save(self, checkpoint: Checkpoint) -> None:
        self._stored.checkpoint = checkpoint

    def save_producers(self, snapshot: Buffer) -> None:
        self._stored.producers = bytes(snapshot)

    def load_producers(self) -> bytes:
        return self._stored.producers


class _Marks(MemoryPlaces):
    """The names of the partitions on a disk."""

    def __init__(self, logs: dict[TopicPartition, PartitionLog], disk: Disk) -> None:
        super().__init__(logs, disk.cluster_id)
        self._topics = disk.topic_ids


def _segment(base_offset: int, data: StoredBytes, interval: int = _INDEX_INTERVAL) -> Segment:
    return Segment(base_offset, data, SegmentIndex(MemoryStore(), MemoryStore()), interval)


def _file_of(segment: Segment) -> StoredBytes:
    data = cast("StoredBytes", segment.log).copy()
    data.created, data.modified = segment.created, segment.modified
    return data


def _recovered(stored: StoredLog, is_compacted: bool) -> Iterator[Segment]:
    """The segments as a start finds them, the last one ready to append."""
    for number, (base_offset, data) in enumerate(stored.segments, start=1):
        segment = _segment(base_offset, data.copy())
        segment.truncate(segment.recover(everything=True, gaps=is_compacted))
        segment.created, segment.modified = data.created, data.modified
        if number < len(stored.segments):
            segment.seal()
        yield segment


def _cut(stored: StoredLog, durable_end: int, random: Random) -> int:
    """Cut a log behind `durable_end`, at a random byte; returns how many bytes that were."""
    lost = 0
    kept: list[tuple[int, StoredBytes]] = []
    for base_offset, data in stored.segments:
        end = _position(data, durable_end)
        if end == data.size:
            kept.append((base_offset, data))
            continue
        position = random.randint(end, data.size)
        lost += data.size - position
        data.truncate(position)
        if position or not kept:
            kept.append((base_offset, data))
        break
    stored.segments = kept
    return lost


def _position(data: MemoryStore, offset: int) -> int:
    """Where the batches below `offset` end."""
    end = 0
    for position, header in scan.headers(data, 0):
        if header.last_offset >= offset:
            break
        end = position + header.size
    return end


def _go_on(_: int) -> None:
    pass
