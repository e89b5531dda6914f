"""The producers of a log, read from its snapshot and its batches.

A snapshot is stored every few MiB. The batches behind it are read when the producers are first
needed, and a snapshot is trusted only if it fits the indexes of aborted transactions.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Final, TypeAlias

from kohort.log.aborted_index import AbortedTransaction, IndexState
from kohort.log.backing import Backing
from kohort.log.producer_states import ProducerSnapshot, ProducerStates, load_snapshot
from kohort.log.segment import Segment
from kohort.protocol.batches import read_marker

_HEADERS_PER_STEP: Final = 20

Aborted: TypeAlias = Sequence[tuple[Segment, list[AbortedTransaction]]]
"""The aborted transactions behind a snapshot, by the segment that has their markers."""


def load_last_snapshot(
    backing: Backing, segments: Sequence[Segment], end_offset: int
) -> ProducerSnapshot:
    """The last snapshot of the log that ends there; an empty one if it is lost or does not fit."""
    try:
        content = backing.load_producers()
        if not content:
            return ProducerSnapshot(ProducerStates(), 0, {})
        snapshot = load_snapshot(content)
        if snapshot.end_offset <= end_offset and _has_indexes(segments, snapshot):
            return snapshot
    except (ValueError, OSError):
        pass
    return ProducerSnapshot(ProducerStates(), 0, {}, is_broken=True)


def _has_indexes(segments: Iterable[Segment], snapshot: ProducerSnapshot) -> bool:
    """Whether the indexes of aborted transactions match the snapshot. Raises OSError."""
    if not snapshot.producers.is_transactional:
        return True
    for segment in segments:
        state = snapshot.indexes.get(segment.base_offset, IndexState())
        is_whole = segment.end_offset <= snapshot.end_offset
        if is_whole and segment.aborted.store.size != state.size:
            return False
        if not segment.aborted.begins_with(state):
            return False
    return True


def replay_batches(
    segments: Sequence[Segment], snapshot: ProducerSnapshot
) -> Generator[None, None, Aborted]:
    """Bring the producers of the snapshot to the end of the log, in steps of some headers.

    `segments` begin with the one that has the end of the snapshot. Raises KafkaError, OSError.
    """
    producers, offset = snapshot.producers, snapshot.end_offset
    aborted_by_segment: list[tuple[Segment, list[AbortedTransaction]]] = []
    for segment in segments:
        aborted: list[AbortedTransaction] = []
        aborted_by_segment.append((segment, aborted))
        headers = segment.headers(segment.position(offset))
        for number, (position, header) in enumerate(headers):
            if not number % _HEADERS_PER_STEP:
                yield
            if header.producer_id < 0:
                continue
            timestamp, modified = header.max_timestamp, segment.modified
            if not header.is_control:
                producers.add(header, header.base_offset, timestamp, modified)
            elif marker := read_marker(segment.log.read(position, header.size)):
                ended = producers.end(header, marker, header.base_offset, timestamp, modified)
                aborted += () if ended is None else (ended,)
    return aborted_by_segment


def restore_aborted_indexes(snapshot: ProducerSnapshot, aborted: Aborted) -> None:
    """Rewrite the indexes of aborted transactions that differ from these. Raises OSError."""
    if snapshot.producers.is_transactional:
        for segment, transactions in aborted:
            state = snapshot.indexes.get(segment.base_offset)
            segment.aborted.replace_from(state, transactions)


def aborted_index_states(segments: Iterable[Segment]) -> dict[int, IndexState]:
    """The state of each index of aborted transactions, by base offset. Raises OSError."""
    return {
        segment.base_offset: segment.aborted.state()
        for segment in segments
        if segment.aborted.store.size
    }
