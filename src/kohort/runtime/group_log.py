"""Converts the records of a shard to the batches of its log, and back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, cast

from kohort.coordinator.records import (
    Entry,
    OffsetCommitRecord,
    OffsetCommits,
    Record,
    TransactionalOffsets,
    TransactionMarker,
    encode,
    offset_key_start,
    pack_offset,
)
from kohort.log.base import LogAppender
from kohort.log.producer_states import VerificationStateEntry
from kohort.protocol.batches import (
    TRANSACTIONAL,
    Header,
    encode_pair,
    encode_run,
    head,
    inflate,
    iterate,
    key_head,
    read_marker,
)
from kohort.runtime.commit_runs import COMMIT_KEY, read_batch, read_commits
from kohort.runtime.log_reading import Batches, KnownKeys, small_batch
from kohort.types import Timestamp

_BATCH_BYTES = 1 << 19
_ROW_CHUNK = 8_192
_WEIGHT = 8
"""Number of committed offsets in columns that are read as fast as a single record."""
_DIVIDED_BYTES = 1 << 24
"""Size at which the records of one event and group are split (tombstones of very many offsets).

Commits are smaller (`GroupCoordinatorConfig.max_commit_bytes`).
"""


def append_records(log: LogAppender, decisions: Iterable[Sequence[Record]], now: Timestamp) -> None:
    """Append the records of several events in order, one batch per event and group.

    One event may concern thousands of groups (expiry, deletion of a topic), which need no common
    batch. Raises OSError or KafkaError if the log refuses; earlier records stay appended.
    """
    divided = min(_DIVIDED_BYTES, log.config.segment_bytes // 2)
    parts: list[bytes] = []
    count = size = 0
    for records in decisions:
        group = None
        for record in records:
            new_group = record.group if isinstance(record, OffsetCommits) else record.key.group
            if size > _BATCH_BYTES and (new_group != group or size > divided):
                log.append_encoded(b"".join(parts), count, now)
                parts, count, size = [], 0, 0
            group = new_group
            if isinstance(record, OffsetCommits):
                _, topic, partitions, values = record
                encoded = encode_run(_key_head_of(group, topic), partitions, values, count)
                count += len(values)
            else:
                encoded = encode_pair(*encode(record), count)
                count += 1
            parts.append(encoded)
            size += len(encoded)
    if count:
        log.append_encoded(parts[0] if len(parts) == 1 else b"".join(parts), count, now)


def append_transactional(
    log: LogAppender,
    offsets: Sequence[TransactionalOffsets],
    verified: VerificationStateEntry | None,
    now: Timestamp,
) -> None:
    """Append the offsets that one request commits in a transaction, as one batch of its producer.

    `verified` is the guard of the verification, None if the transaction was already open in the
    log. Raises KafkaError if the log refuses the batch, OSError.
    """
    parts: list[bytes] = []
    count = 0
    for _, _, (group, topic, partitions, values) in offsets:
        parts.append(encode_run(_key_head_of(group, topic), partitions, values, count))
        count += len(values)
    content = b"".join(parts)
    producer_id, producer_epoch, _ = offsets[0]
    header = head(
        *(0, 0, content, count, now, TRANSACTIONAL),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    log.append(header + content, now, verified=verified)


_CACHED_CHARS: Final = 255
"""Maximum length of a cached group id: the cache bounds its entries, not their size."""


def _key_head_of(group: str, topic: str) -> bytes:
    return (
        _cached_key_head(group, topic) if len(group) <= _CACHED_CHARS else _key_head(group, topic)
    )


def _key_head(group: str, topic: str) -> bytes:
    return key_head(offset_key_start(group, topic))


_cached_key_head = lru_cache(maxsize=4_096)(_key_head)


def read_records(reads: Iterable[Batches]) -> Iterator[list[Entry]]:
    """The records of these batches, in chunks that are replayed in some milliseconds each.

    Skipped are records of protocols that are not served, and commits that a later commit of the
    same read supersedes, with only commits in between. Offsets of a transactional batch are
    returned as `TransactionalOffsets`, and their marker at its position.

    Raises CorruptRecordError if a record does not follow the schema, and as `reads` does.
    """
    pending: Counter[int] = Counter()
    keys = KnownKeys()
    for data, _ in reads:
        entries: list[Entry] = []
        rows = 0
        for entry, size in _entries(data, keys, pending):
            entries.append(entry)
            rows += size
            if rows > _ROW_CHUNK:
                yield entries
                entries, rows = [], 0
        yield entries


def _entries(data: bytes, keys: KnownKeys, pending: "Counter[int]") -> Iterator[tuple[Entry, int]]:
    """The entries of one read, each with its cost to replay, in offsets.

    `pending` counts the offsets of each open transaction, which its marker has applied.
    """
    latest: dict[bytes, bytes] = {}
    position = keys.store_known(data, 0, latest)
    while (located := next(iterate(data, position), None)) is not None:
        _, header = located
        commits = _small_commit(data, position, header)
        if commits is None or header.is_transactional:
            for record in read_commits(latest):
                yield record, _weight(record)
            latest = {}
            yield from _batch_entries(data, position, header, commits, pending)
        else:
            latest.update(commits)
            if len(commits) == 1:
                keys.add(data, position, header, *commits[0])
        position = keys.store_known(data, position + header.size, latest)
    for record in read_commits(latest):
        yield record, _weight(record)


def _small_commit(
    data: bytes, position: int, header: Header
) -> Sequence[tuple[bytes, bytes]] | None:
    """The keys and values of a small batch that has only committed offsets."""
    pairs = small_batch(data, position, header)
    if pairs is not None:
        for key, value in pairs:
            if value is None or not key.startswith(COMMIT_KEY):
                return None
    return cast("Sequence[tuple[bytes, bytes]] | None", pairs)


def _batch_entries(
    data: bytes,
    position: int,
    header: Header,
    commits: Sequence[tuple[bytes, bytes]] | None,
    pending: "Counter[int]",
) -> Iterator[tuple[Entry, int]]:
    producer_id = header.producer_id
    if header.is_control:
        marker = read_marker(data, position)
        if marker is not None:
            size = pending.pop(producer_id, 0) + _WEIGHT
            yield TransactionMarker(producer_id, marker.commit), size
        return
    if commits is None:
        content = inflate(memoryview(data)[position:], header)
        records = read_batch(content, header.record_count)
    else:
        records = read_commits(dict(commits))
    for record in records:
        size = _weight(record)
        if header.is_transactional:
            pending[producer_id] += size
            yield _transactional(record, header), size
        else:
            yield record, size


def _weight(record: Record) -> int:
    return len(record.values) if isinstance(record, OffsetCommits) else _WEIGHT


def _transactional(record: Record, header: Header) -> Entry:
    """The entry of a record of a transactional batch: only offsets are pending until its end."""
    commits = record
    if isinstance(record, OffsetCommitRecord) and record.value is not None:
        group, topic, partition = record.key
        commits = OffsetCommits(group, topic, (partition,), (pack_offset(*record.value),))
    if isinstance(commits, OffsetCommits):
        return TransactionalOffsets(header.producer_id, header.producer_epoch, commits)
    return record
