"""Copies of all logs into another place, and their comparison.

A log is copied as it is stored: its segments with their batches as bytes, their indexes of aborted
transactions, the state of its producers, and its checkpoint. So offsets, timestamps, leader epochs,
open transactions and what compaction has left are the same in the copy, whatever its place is. Each
batch is checked by its CRC on the way. A segment that is too large for the other place becomes
several.

A copy that was interrupted goes on: a log that was copied whole, and is as long as then, is not
copied again. Any other one is copied anew. Whoever goes on compares the places in the end.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kohort.errors import KohortError
from kohort.log import scan
from kohort.log.aborted_index import AbortedTransaction, IndexState
from kohort.log.backing import Checkpoint
from kohort.log.base import Log, LogConfig
from kohort.log.damage import CorruptLogError, Damage
from kohort.log.leader_epochs import EpochEntry, LeaderEpochs
from kohort.log.partition import PartitionLog
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress, unobserved
from kohort.protocol.batches import Buffer
from kohort.types import TopicPartition

_CHUNK_BYTES: Final = 1 << 20
"""Bytes that are read, and written, at once."""


class LogCopy(Protocol):
    """The place of the copy of one log. Every method raises OSError."""

    def new_segment(self, base_offset: int) -> Segment:
        """An empty segment, to be filled."""
        ...

    def store(self, segment: Segment, *, is_active: bool) -> None:
        """Store a segment that is filled, durably; an active one is the last, and appended to."""
        ...

    def finish(self, checkpoint: Checkpoint, producers: bytes) -> None:
        """Store the rest of the log's state, durably."""
        ...


class Places(Protocol):
    """Which logs there are; `PartitionDirectories` has more."""

    @property
    def cluster_id(self) -> str | None: ...

    def marks(self) -> Mapping[TopicPartition, UUID | None]: ...


class Source(Protocol):
    """Logs to be read; a `LogDirectory` has more."""

    @property
    def directories(self) -> Places: ...

    def open(self, topic_partition: TopicPartition, config: LogConfig, /) -> Log: ...

    def close(self) -> None: ...


class Extent(NamedTuple):
    """Extent of a log: every append and every removal changes it."""

    start_offset: int
    end_offset: int
    size: int
    cleaned: int
    """Offset up to which it was compacted."""


class Target(Protocol):
    """A place for a copy of all logs, which no server serves from until it is complete."""

    largest_segment: int
    """Bytes of a segment at most, unless a single batch is larger."""

    def begin(self, cluster_id: str) -> None:
        """Copy that cluster, or go on. Raises KohortError if another one was begun, OSError."""
        ...

    def copied(self, partition: TopicPartition, topic_id: UUID) -> Extent | None:
        """The log as it was copied whole before; None if it was not. Raises OSError."""
        ...

    def add_log(self, partition: TopicPartition, topic_id: UUID) -> LogCopy:
        """Make the place of a log, without what may be there of it. Raises OSError."""
        ...

    def complete(self, cluster_id: str) -> None:
        """Let servers use the copy, once all of it is durable. Raises OSError.

        It has the logs that were asked for or added; what else a former copy left is removed.
        """
        ...

    def close(self) -> None:
        """Let others have the place. Idempotent."""
        ...


class LogContents(NamedTuple):
    """Contents of a log, for comparison."""

    start_offset: int
    end_offset: int
    stable_offset: int
    """Offset up to which transactions are decided."""
    cleaned: int
    """Offset up to which it was compacted."""
    size: int
    batches: bytes
    """A hash of all batches."""
    producers: bytes
    """The snapshot of the producers and open transactions."""
    aborted: tuple[AbortedTransaction, ...]


def logs_of(directory: Source) -> Iterator[tuple[PartitionLog, UUID]]:
    """Every log, with the id of its topic. Raises KafkaError for a damaged one, OSError."""
    for partition, topic_id in sorted(directory.directories.marks().items()):
        if topic_id is not None:
            log = directory.open(partition, LogConfig())
            log.ensure_open()
            assert isinstance(log, PartitionLog)
            yield log, topic_id


def copy_all(
    source: Source,
    target: Target,
    progress: Progress = unobserved,
    already: Progress = unobserved,
) -> None:
    """Copy all logs, and complete the copy; if that fails it is not complete.

    `already` is called with the bytes of each log that was copied before. Raises KohortError if a
    log is damaged, version 0.1 has left the logs, or the target has a part of another copy;
    OSError.
    """
    cluster_id = source.directories.cluster_id
    if cluster_id is None:
        raise KohortError("version 0.1 has left the logs: start a server with them once")
    target.begin(cluster_id)
    for log, topic_id in logs_of(source):
        if target.copied(log.topic_partition, topic_id) == _extent(log):
            already(log.size)
            continue
        copy = target.add_log(log.topic_partition, topic_id)
        copy_log(log, copy, target.largest_segment, progress)
    target.complete(cluster_id)


def _extent(log: PartitionLog) -> Extent:
    return Extent(log.start_offset, log.end_offset, log.size, log.checkpoint.cleaned)


def copy_log(log: PartitionLog, copy: LogCopy, largest_segment: int, progress: Progress) -> None:
    """Copy one log. Raises CorruptLogError, OSError."""
    indexes: dict[int, IndexState] = {}
    epochs: dict[int, int] = {}
    for segment in log.segments:
        is_last = segment is log.segments[-1]
        for piece, is_end in _pieces(segment, copy, largest_segment, epochs, progress):
            if piece.aborted.store.size:
                indexes[piece.base_offset] = piece.aborted.state()
            copy.store(piece, is_active=is_last and is_end)
    entries = _entries(log, epochs)
    copy.finish(log.checkpoint._replace(epochs=entries), bytes(log.producers_for(indexes)))


def _entries(log: PartitionLog, epochs: Mapping[int, int]) -> tuple[EpochEntry, ...]:
    """The leader epochs of a log whose batches have these `epochs`, with their first offsets."""
    current = max(log.leader_epoch, *epochs, 0)
    if not current:
        return ()
    leader_epochs = LeaderEpochs(current, log.end_offset, epochs.items())
    return leader_epochs.entries(log.start_offset)


def _pieces(
    segment: Segment, copy: LogCopy, largest: int, epochs: dict[int, int], progress: Progress
) -> Iterator[tuple[Segment, bool]]:
    """The segments that one becomes, each filled, and whether it is the last one of them.

    `epochs` gets the first offset of each leader epoch.
    """
    aborted = deque(segment.aborted.entries())
    base_offset, position, is_end = segment.base_offset, 0, False
    while not is_end:
        piece = copy.new_segment(base_offset)
        position = _fill(piece, segment, position, largest, epochs, progress)
        is_end = position == segment.size
        if is_end:
            piece.end_offset = segment.end_offset
        while aborted and aborted[0].marker_offset < piece.end_offset:
            piece.aborted.add(aborted.popleft())
        piece.created, piece.modified = segment.created, segment.modified
        base_offset = piece.end_offset
        yield piece, is_end


def _fill(
    piece: Segment,
    source: Segment,
    position: int,
    largest: int,
    epochs: dict[int, int],
    progress: Progress,
) -> int:
    """Copy batches from `position` on; returns where those begin that did not fit."""
    waiting: list[Buffer] = []
    size = 0
    for start, header, batch in scan.intact(source.log, position, piece.base_offset):
        if piece.size + size and piece.size + size + len(batch) > largest:
            break
        epochs.setdefault(header.partition_leader_epoch, header.base_offset)
        piece.note(piece.size + size, len(batch), header.last_offset, header.max_timestamp)
        waiting.append(batch)
        size += len(batch)
        position = start + len(batch)
        if size >= _CHUNK_BYTES:
            _write(piece, waiting, progress)
            size = 0
    else:
        if position < source.size:
            raise _damaged(source, position, piece.end_offset)
    _write(piece, waiting, progress)
    return position


def _write(piece: Segment, waiting: list[Buffer], progress: Progress) -> None:
    content = b"".join(waiting)
    waiting.clear()
    piece.log.append((content,))
    progress(len(content))


def _damaged(segment: Segment, position: int, offset: int) -> CorruptLogError:
    file = segment.log.file() or repr(segment)
    problem = "no valid batch is there"
    return CorruptLogError(Damage(file=file, position=position, offset=offset, what=problem))


def differences(source: Source, copy: Source, progress: Progress = unobserved) -> Iterator[str]:
    """Differences between two sets of logs, as text. Raises KohortError, OSError."""
    ids = source.directories.cluster_id, copy.directories.cluster_id
    if ids[0] != ids[1]:
        yield f"the cluster id is {ids[0]}, and {ids[1]} in the copy"
    marks = dict(copy.directories.marks())
    for log, topic_id in logs_of(source):
        partition = log.topic_partition
        copied_id = marks.pop(partition, None)
        if copied_id != topic_id:
            yield f"{partition} is not in the copy, or belongs to another topic"
            continue
        other = copy.open(partition, LogConfig())
        other.ensure_open()
        assert isinstance(other, PartitionLog)
        mine, its = contents_of(log, progress), contents_of(other, progress)
        if mine != its:
            names = [name for name, a, b in zip(mine._fields, mine, its, strict=True) if a != b]
            yield f"{partition} differs: {', '.join(names)}"
    for partition, left in marks.items():
        if left is not None:
            yield f"{partition} is in the copy only"


def contents_of(log: PartitionLog, progress: Progress = unobserved) -> LogContents:
    """Read every byte of a log for a comparison. Raises KafkaError, OSError."""
    digest = blake2b()
    for segment in log.segments:
        position = 0
        while position < segment.size:
            content = segment.log.read(position, _CHUNK_BYTES)
            digest.update(content)
            position += len(content)
            progress(len(content))
    return LogContents(
        log.start_offset,
        log.end_offset,
        log.last_stable_offset,
        log.checkpoint.cleaned,
        log.size,
        digest.digest(),
        bytes(log.producers_for({})),
        tuple(transaction for segment in log.segments for transaction in segment.aborted.entries()),
    )
