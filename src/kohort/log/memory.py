"""Logs in memory: for tests, for embedding, for `kohort serve --memory`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from kohort import __version__
from kohort.errors import ErrorCode
from kohort.log.backing import Checkpoint, UnsyncedBacking
from kohort.log.base import Log, LogConfig, OwnedLogDirectory
from kohort.log.cleaner import compact_all, retain_all
from kohort.log.index import SegmentIndex
from kohort.log.leader_epochs import ONLY, LeaderEpochs
from kohort.log.partition import PartitionLog
from kohort.log.partition_directories import NameTakenError
from kohort.log.partition_mark import new_cluster_id
from kohort.log.problems import Problems
from kohort.log.segment import Segment
from kohort.log.stores import MemoryStore
from kohort.protocol.batches import Buffer
from kohort.types import Timestamp, TopicPartition

INTERNAL_SEGMENT: Final = 256 * 1024
"""Bytes of a segment of an internal topic: some 2,000 commits."""
_INTERNAL: Final = "__"


class MemoryPlaces:
    """The `PartitionDirectories` of memory."""

    is_case_insensitive = False
    written_by = __version__

    def __init__(
        self, logs: Mapping[TopicPartition, PartitionLog], cluster_id: str | None = None
    ) -> None:
        """`logs` are those that are open; without `cluster_id` they are of a new cluster."""
        self.cluster_id: str | None = cluster_id or new_cluster_id()
        self._logs = logs
        self._topics: dict[TopicPartition, UUID] = {}

    def marks(self) -> dict[TopicPartition, UUID | None]:
        return {
            partition: self._topics.get(partition) for partition in {*self._logs, *self._topics}
        }

    def is_taken(self, partition: TopicPartition) -> bool:
        return partition in self._logs or partition in self._topics

    def make(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        for partition in partitions:
            if partition in self._logs and partition not in self._topics:
                raise NameTakenError(partition, f"memory/{partition}")
        self._topics.update(partitions)

    def mark(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        self._topics.update(partitions)

    def set_aside(self, partition: TopicPartition) -> str:
        self._topics.pop(partition, None)
        return f"{partition}-stray"

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        if self._topics.get(partition) == topic_id:
            del self._topics[partition]

    def settle(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id


class MemoryDirectory:
    """A `LogDirectory` that is gone with its process."""

    def __init__(self, cluster_id: str | None = None, leader_epoch: int = 0) -> None:
        """Without `cluster_id` it is one of a new cluster. `leader_epoch` is that of its logs."""
        self._leader_epoch = leader_epoch
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.directories = MemoryPlaces(self._logs, cluster_id)
        self.problems = Problems()
        self.on_reopened: list[Callable[[Log], None]] = []
        self.on_written: list[Callable[[float], None]] = []

    @property
    def owned(self) -> OwnedLogDirectory | None:
        return self

    def recover(self, logs: Iterable[tuple[TopicPartition, LogConfig, int]]) -> None:
        pass

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        synced_by_owner: bool = False,  # noqa: ARG002
        leader_epoch: int = 0,
    ) -> PartitionLog:
        log = self._logs.get(topic_partition)
        if log is None:
            epochs = LeaderEpochs(max(leader_epoch, self._leader_epoch))
            log = self._logs[topic_partition] = memory_log(topic_partition, config, epochs)
        return log

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        raise NotImplementedError  # every place in memory is Kohort's

    async def reopen(self) -> None:
        pass

    def stop_opening(self) -> None:
        pass

    def confirm_start(self) -> None:
        pass

    def retire(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.retire(topic_partition)
        self.directories.remove(topic_partition, topic_id)

    def names(self) -> Iterable[TopicPartition]:
        return tuple(self.directories.marks())

    async def retain(self, now: Timestamp) -> None:
        await retain_all(self._logs.values(), now)

    async def compact(self, now: Timestamp) -> None:
        await compact_all(self._logs.values(), now)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()


def memory_log(
    topic_partition: TopicPartition,
    config: LogConfig = LogConfig(),  # noqa: B008
    leader_epochs: LeaderEpochs = ONLY,
) -> PartitionLog:
    """A log of its own, outside any directory."""
    backing = MemoryBacking()
    segment = backing.new_segment(0, config.index_interval_bytes)
    return MemoryLog(topic_partition, config, backing, [segment], leader_epochs=leader_epochs)


class MemoryLog(PartitionLog):
    """A `Log` in memory.

    The state of coordinators is compacted in small segments there: only the active one keeps what
    was superseded. The topics of users keep to `segment.bytes`, as readers of all records expect.
    """

    __slots__ = ()

    def configure(self, config: LogConfig) -> None:
        super().configure(config)
        if config.is_compacted and self.topic_partition.topic.startswith(_INTERNAL):
            self._segments.roll_bytes = min(self._segments.roll_bytes, INTERNAL_SEGMENT)


class MemoryBacking(UnsyncedBacking):
    """The storage of a log in memory, which keeps only segments."""

    __slots__ = ()

    def new_segment(self, base_offset: int, interval: int = 4096) -> Segment:
        return Segment(
            base_offset, MemoryStore(), SegmentIndex(MemoryStore(), MemoryStore()), interval
        )

    def sealed(self, segment: Segment) -> None:
        pass

    def discard(self, segments: Sequence[Segment]) -> None:
        pass

    def save(self, checkpoint: Checkpoint) -> None:
        pass

    def save_producers(self, snapshot: Buffer) -> None:
        pass

    def load_producers(self) -> bytes:
        return b""

    def compaction_target(self, base_offset: int) -> Segment:
        return self.new_segment(base_offset)

    def begin_swap(self, old: Sequence[Segment], new: Segment, cleaned: int) -> None:
        pass

    def drop_swap(self, old: Sequence[Segment], new: Segment) -> None:
        pass

    def finish_swap(self, old: Sequence[Segment], new: Segment) -> Segment:  # noqa: ARG002
        return new
