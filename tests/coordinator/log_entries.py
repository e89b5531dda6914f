"""Entries of the log of a coordinator: what compaction leaves of them, and their bytes."""

from collections.abc import Iterator
from typing import Any

from kohort.coordinator.records import (
    Entry,
    OffsetCommitRecord,
    OffsetCommits,
    TransactionalOffsets,
    TransactionMarker,
    decode,
    encode,
)


def aborted(log: list[Entry]) -> set[int]:
    """The positions of what a transaction committed that was aborted."""
    found: set[int] = set()
    of: dict[int, list[int]] = {}
    for position, entry in enumerate(log):
        if isinstance(entry, TransactionalOffsets):
            of.setdefault(entry.producer_id, []).append(position)
        elif isinstance(entry, TransactionMarker):
            ended = of.pop(entry.producer_id, [])
            found.update(() if entry.commit else ended)
    return found


def last_stable(log: list[Entry]) -> int:
    """The position of the first record of an open transaction, or the end of the log."""
    first: dict[int, int] = {}
    for position, entry in enumerate(log):
        if isinstance(entry, TransactionalOffsets):
            first.setdefault(entry.producer_id, position)
        elif isinstance(entry, TransactionMarker):
            first.pop(entry.producer_id, None)
    return min(first.values(), default=len(log))


def kind_of(entry: Entry) -> type:
    """The type of the entry's records: keys are unique within one."""
    return OffsetCommitRecord if isinstance(entry, TransactionalOffsets) else type(entry)


def keys(entry: Entry) -> Iterator[Any]:
    if isinstance(entry, TransactionalOffsets):
        yield from (row.key for row in entry.commits.rows())
    elif not isinstance(entry, TransactionMarker):
        yield entry.key  # type: ignore[misc]


def compact(log: list[Entry]) -> list[Entry]:
    """The last record of each key, of those before the last stable offset that were not aborted."""
    end, dropped = last_stable(log), aborted(log)
    last = {
        (kind_of(entry), key): position
        for position, entry in enumerate(log[:end])
        if position not in dropped
        for key in keys(entry)
    }
    kept: list[Entry] = []
    for position, entry in enumerate(log[:end]):
        if isinstance(entry, TransactionMarker):
            kept.append(entry)
        elif isinstance(entry, TransactionalOffsets):
            group, topic, *_ = entry.commits
            for (key, _), value in zip(entry.commits.rows(), entry.commits.values, strict=True):
                if last.get((OffsetCommitRecord, key)) == position:
                    left = OffsetCommits(group, topic, (key.partition,), (value,))
                    kept.append(entry._replace(commits=left))
        elif last[kind_of(entry), entry.key] == position:
            kept.append(entry)
    return kept + log[end:]


def decoded(entry: Entry) -> Entry:
    """The same entry after its bytes were read."""
    if isinstance(entry, TransactionMarker):
        return entry
    rows = entry.commits.rows() if isinstance(entry, TransactionalOffsets) else [entry]
    read = [decode(*encode(row)) for row in rows]
    assert read == rows
    return entry if isinstance(entry, TransactionalOffsets) else read[0]
