"""A cluster whose nodes share logs in the memory of one process: for tests, and for embedding."""

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kohort.cluster import LEASE_MS, DuplicateNodeIdError, FencedError, Liveness, Logged, Observed
from kohort.errors import ErrorCode
from kohort.log import scan
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.index import SegmentIndex
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.memory import MemoryBacking, MemoryDirectory
from kohort.log.partition import PartitionLog
from kohort.log.partition_mark import new_cluster_id
from kohort.log.segment import Segment
from kohort.log.standby import StandbyLog
from kohort.log.stores import MemoryStore, loaded
from kohort.protocol.batches import Buffer, read_header
from kohort.types import Timestamp, TopicPartition

_READ_BYTES: Final = 1 << 18


@dataclass(slots=True)
class _StoredLog:
    """A log, independent of its leader."""

    topic_id: UUID
    segments: list[Segment] = field(default_factory=list)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    producers: bytes = b""

    def batches(self) -> Iterator[tuple[int, int]]:
        """Epoch and base offset of each."""
        for segment in self.segments:
            for _, header in scan.headers(segment.log, 0):
                yield header.partition_leader_epoch, header.base_offset


class _Backing(MemoryBacking):
    """The storage of a shared log."""

    __slots__ = ("_stored",)

    def __init__(self, stored: _StoredLog) -> None:
        self._stored = stored

    def new_segment(self, base_offset: int, interval: int = 4096) -> Segment:
        index = SegmentIndex(MemoryStore(), MemoryStore())
        return Segment(base_offset, MemoryStore(), index, interval)

    def save(self, checkpoint: Checkpoint) -> None:
        self._stored.checkpoint = checkpoint

    def save_producers(self, snapshot: Buffer) -> None:
        self._stored.producers = bytes(snapshot)

    def load_producers(self) -> bytes:
        return self._stored.producers


@dataclass(slots=True)
class _Row:
    """Shared state of one node."""

    session: int = 0
    lease_until: int = 0
    process: "MemoryStorage | None" = None
    """The one that has the session, as long as it is there."""


class MemoryCluster:
    """State that the nodes share: their rows, the metadata log, and the logs of partitions."""

    def __init__(self, now: Callable[[], Timestamp], cluster_id: str | None = None) -> None:
        """`now` is the clock of the storage. Without `cluster_id` it is one of a new cluster."""
        self.now = now
        self.cluster_id = cluster_id or new_cluster_id()
        self.rows: dict[int, _Row] = {}
        self.metadata: list[bytes] = []
        """The batches of the metadata log."""
        self.end_offset = 0
        """Of the metadata log."""
        self.compacted = 0
        """End of the part of it that was compacted."""
        self.logs: dict[TopicPartition, _StoredLog] = {}
        self.grown = asyncio.Event()
        """Set, and replaced, when the metadata log has grown."""

    def append(self, batch: bytes) -> None:
        self.metadata.append(batch)
        self.end_offset = read_header(batch).last_offset + 1
        self.grown.set()
        self.grown = asyncio.Event()

    def fence(self, node: int) -> None:
        """End the session of a node: it appends nothing any more."""
        row = self.rows[node]
        row.session += 1
        if row.process is not None:
            row.process.logs.end_all()

    def crash(self, node: int) -> None:
        """Simulate the crash of a node: its lock is free, its session is not over."""
        row = self.rows[node]
        if row.process is not None:
            row.process.logs.end_all()
            row.process = None


@dataclass(frozen=True, slots=True)
class _Source:
    """The `Source` of a log, which its leader may yet have to make."""

    shared: MemoryCluster
    topic_partition: TopicPartition
    topic_id: UUID

    @property
    def _stored(self) -> _StoredLog:
        stored = self.shared.logs.get(self.topic_partition)
        if stored is None or stored.topic_id != self.topic_id:
            return _StoredLog(self.topic_id)
        return stored

    async def checkpoint(self) -> Checkpoint:
        return self._stored.checkpoint

    async def read_on(self, offset: int) -> bytes:
        for segment in self._stored.segments:
            if segment.end_offset > offset:
                records = segment.read(offset, _READ_BYTES, at_least_one=True)
                if records:
                    return loaded(records, len(records))
        return b""


class MemoryStorage:
    """The `SharedStorage` of one process, with the logs that it has taken."""

    def __init__(self, shared: MemoryCluster, node_id: int) -> None:
        self._shared = shared
        self.node_id = node_id
        self.session = -1
        self.logs = SharedMemoryDirectory(shared)

    @property
    def _row(self) -> _Row:
        """Raises FencedError."""
        row = self._shared.rows.get(self.node_id)
        if row is None or row.session != self.session:
            raise FencedError
        return row

    async def claim(self) -> int:
        row = self._shared.rows.setdefault(self.node_id, _Row())
        if row.process not in (None, self) and row.lease_until > self._shared.now():
            raise DuplicateNodeIdError(self.node_id)
        self._shared.fence(self.node_id)
        row.process, self.session = self, row.session
        await self.renew()
        return self.session

    async def renew(self) -> None:
        self._row.lease_until = self._shared.now() + LEASE_MS

    async def release(self) -> None:
        row = self._shared.rows.get(self.node_id)
        if row is not None and row.session == self.session:
            self._shared.fence(self.node_id)
            row.lease_until, row.process = 0, None

    async def observe(self) -> Observed:
        nodes = {
            node: Liveness(row.session, Timestamp(row.lease_until), row.process is not None)
            for node, row in self._shared.rows.items()
        }
        return Observed(self._shared.now(), nodes)

    async def read(self, offset: int) -> Logged:
        if offset < (end := self._shared.compacted):
            data = [
                batch for batch in self._shared.metadata if read_header(batch).base_offset < end
            ]
            return Logged(b"".join(data), end)
        return Logged(
            b"".join(batch for batch in self._shared.metadata if _last_offset(batch) >= offset)
        )

    async def compact(self, end_offset: int, batches: Sequence[bytes]) -> None:
        self._row  # noqa: B018 - raises if the session is over
        if end_offset > self._shared.compacted:
            later = [batch for batch in self._shared.metadata if _last_offset(batch) >= end_offset]
            self._shared.metadata = [*batches, *later]
            self._shared.compacted = end_offset

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        self._row  # noqa: B018 - raises if the session is over
        if end_offset != self._shared.end_offset:
            return False
        for node, session in fences.items():
            if node in self._shared.rows and self._shared.rows[node].session == session:
                self._shared.fence(node)
        self._shared.append(batch)
        return True

    async def wait_beyond(self, offset: int) -> None:
        while self._shared.end_offset <= offset:
            await self._shared.grown.wait()


class SharedMemoryDirectory(MemoryDirectory):
    """The logs of one node; the `SharedLogDirectory` of memory."""

    def __init__(self, shared: MemoryCluster) -> None:
        super().__init__(shared.cluster_id)
        self._shared = shared

    @property
    def owned(self) -> None:
        """None: the nodes share the logs."""

    async def take(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
        position: int,
    ) -> PartitionLog:
        stored = self._shared.logs.get(topic_partition)
        if stored is not None and stored.topic_id != topic_id:
            if position < self._shared.end_offset:
                raise OSError(None, f"{topic_partition} may be of another topic by now")
            stored = None
        if stored is None:
            stored = self._shared.logs[topic_partition] = _StoredLog(topic_id)
        backing = _Backing(stored)
        if not stored.segments:
            stored.segments.append(backing.new_segment(0, config.index_interval_bytes))
        epochs = LeaderEpochs(leader_epoch, stored.segments[-1].end_offset, stored.batches())
        log = PartitionLog(
            topic_partition,
            config,
            backing,
            stored.segments,
            stored.checkpoint,
            leader_epochs=epochs,
        )
        stored.segments = log.segments
        log.restore_producers(_go_on)
        self._logs[topic_partition] = log
        return log

    def stand_by(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> StandbyLog:
        return StandbyLog(topic_partition, config, _Source(self._shared, topic_partition, topic_id))

    def bind_topics(self, current_topics: Callable[[], tuple[int, Container[UUID]]]) -> None:
        """Nothing is left: `remove` cannot fail."""

    async def release(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.close()

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        super().remove(topic_partition, topic_id)
        stored = self._shared.logs.get(topic_partition)
        if stored is not None and stored.topic_id == topic_id:
            del self._shared.logs[topic_partition]

    def end_all(self) -> None:
        """The session is over: nothing is appended any more, and nothing is saved."""
        logs = tuple(self._logs.values())
        self._logs.clear()
        for log in logs:
            log.end(ErrorCode.not_leader_or_follower)


def _last_offset(batch: bytes) -> int:
    return read_header(batch).last_offset


def _go_on(_: int) -> None:
    pass
