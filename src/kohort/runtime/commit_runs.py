"""Reads the records of batches of `__consumer_offsets`, a whole commit at a time.

Nearly all records of this topic are committed offsets as this server writes them: consecutive, of
one size, with keys that differ only in the partition. Such a run is split into columns at the speed
of C, by the layout of its first record. The columns show whether all others have that layout. All
other records are read one by one, with the same result.

Small batches are not split: `log_reading.small_batch` returns their keys and values, and
`read_commits` reads the last value of each key.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from kohort.coordinator.records import (
    USUAL_OFFSET_SIZE,
    OffsetCommitRecord,
    OffsetCommits,
    Record,
    are_usual_offsets,
    decode,
)
from kohort.coordinator_common import CorruptRecordError
from kohort.protocol.records import (
    RawRecord,
    encode_varint,
    equal_sizes,
    invalid,
    key_head,
    read_record,
    read_zigzag_varint,
)

_STRETCH: Final = 1_024
"""Maximum number of records that are split at once."""
COMMIT_KEY: Final = b"\x00\x01"
"""The first bytes of a committed offset's key."""
_VALUE_SIZE: Final = encode_varint(USUAL_OFFSET_SIZE)


class _Key(NamedTuple):
    """The part of the key that the commits of a run share."""

    group: str
    topic: str


def read_batch(content: bytes, count: int) -> Iterator[Record]:
    """The `count` records of a batch's content, as values to replay in order.

    Records of protocols that are not served are skipped. Raises CorruptRecordError if a
    record does not follow the schema, KafkaError if the content does not have `count` records.
    """
    position = 0
    while count:
        try:
            raw = read_record(content, position)
        except IndexError:
            raise invalid("the batch ends before its records do") from None
        stretch = _stretch(content, raw, count)
        if stretch is None:
            record = _read_one(content, raw)
            if record is not None:
                yield record
            position, count = raw[1], count - 1
        else:
            yield from stretch
            read = sum(len(commits.values) for commits in stretch)
            position, count = position + read * (raw[1] - raw[0]), count - read
    if position != len(content):
        raise invalid("the batch goes on after its records")


def read_commits(values: Mapping[bytes, bytes]) -> Iterator[OffsetCommits | OffsetCommitRecord]:
    """Committed offsets by the keys of their records, all with `COMMIT_KEY`, in the same order.

    Raises CorruptRecordError if a key or a value does not follow the schema.
    """
    usual = [value for value in values.values() if len(value) == USUAL_OFFSET_SIZE]
    are_usual = are_usual_offsets(b"".join(usual))
    current_key: _Key | None = None
    partitions: list[int] = []
    stored: list[bytes] = []
    for key, value in values.items():
        names = _names_of(key[:-4])
        if names is None or not are_usual or len(value) != USUAL_OFFSET_SIZE:
            if current_key is not None:
                yield OffsetCommits(*current_key, partitions, stored)
            current_key = None
            record = _decode(key, value)
            assert isinstance(record, OffsetCommits | OffsetCommitRecord)
            yield record
            continue
        if names != current_key:
            if current_key is not None:
                yield OffsetCommits(*current_key, partitions, stored)
            current_key, partitions, stored = names, [], []
        partitions.append(int.from_bytes(key[-4:], "big", signed=True))
        stored.append(value)
    if current_key is not None:
        yield OffsetCommits(*current_key, partitions, stored)


def _read_one(content: bytes, raw: RawRecord) -> Record | None:
    _, _, _, _, key, value_start, value_end = raw
    if key is None:
        raise CorruptRecordError("a record of __consumer_offsets has no key")
    return _decode(key, None if value_start < 0 else content[value_start:value_end])


def _decode(key: bytes, value: bytes | None) -> Record | None:
    record = decode(key, value)
    if isinstance(record, OffsetCommitRecord) and value is not None and are_usual_offsets(value):
        return OffsetCommits(*record.key[:2], (record.key.partition,), (value,))
    return record


def _stretch(content: bytes, raw: RawRecord, count: int) -> Sequence[OffsetCommits] | None:
    """The commits of a run of at least two records of one size that starts with `raw`.

    None if the records are no such run.
    """
    start, end, _, _, key, value_start, value_end = raw
    if key is None or value_end - value_start != USUAL_OFFSET_SIZE or key[:2] != COMMIT_KEY:
        return None
    step = end - start
    unchecked = min(count, _STRETCH, (len(content) - start) // step)
    alike = 1 + equal_sizes(content, start, step, unchecked - 1)
    if alike < 2:
        return None
    head_size = len(key_head(key[:-4]))
    prefix_size = value_start - 1 - 4 - head_size - start
    if prefix_size + head_size + 4 + 1 + USUAL_OFFSET_SIZE + 1 != step:
        return None  # it has headers
    rows = _cutter(prefix_size, head_size).iter_unpack(content[start : start + alike * step])
    prefixes, heads, partitions, sizes, values, headers = zip(*rows, strict=True)
    if (
        any(b"".join(headers))
        or sizes.count(_VALUE_SIZE) != alike
        or not _have_equal_varints(b"".join(prefixes), prefix_size)
        or not are_usual_offsets(b"".join(values))
    ):
        return None
    commits: list[OffsetCommits] = []
    position = 0
    for head, run in groupby(heads):
        names, size = _names(head), len(list(run))
        if names is None:
            return None
        columns = partitions[position : position + size], values[position : position + size]
        commits.append(OffsetCommits(names.group, names.topic, *columns))
        position += size
    return commits


def _have_equal_varints(prefixes: bytes, size: int) -> bool:
    """Whether the varints before the keys end at the same bytes in each of these records."""
    columns = (prefixes[index::size] for index in range(size))
    return all(max(column) < 128 or min(column) >= 128 for column in columns)


@lru_cache(maxsize=256)
def _cutter(prefix: int, head: int) -> struct.Struct:
    """The fields of a record: size to deltas, the key's head, partition, value with its size, and
    the number of headers.
    """
    return struct.Struct(f">{prefix}s{head}si1s{USUAL_OFFSET_SIZE}s1s")


_CACHED_BYTES: Final = 512
"""Maximum size of a cached key head: the cache bounds its entries, not their size."""


def _names(head: bytes) -> _Key | None:
    """Group and topic of a key's head that is preceded by its length; None if it is invalid."""
    return _cached_names(head) if len(head) <= _CACHED_BYTES else _read_names(head)


def _read_names(head: bytes) -> _Key | None:
    size, start = read_zigzag_varint(head, 0)
    return _read_key(head[start:]) if size == len(head) - start + 4 else None


_cached_names = lru_cache(maxsize=4_096)(_read_names)


def _names_of(key: bytes) -> _Key | None:
    """Group and topic of a key without its partition; None if it is invalid."""
    return _cached_key(key) if len(key) <= _CACHED_BYTES else _read_key(key)


def _read_key(key: bytes) -> _Key | None:
    topic_at = 4 + _int16(key, 2) + 2
    group, topic = key[4 : topic_at - 2], key[topic_at:]
    if key[:2] != COMMIT_KEY or len(key) < topic_at or _int16(key, topic_at - 2) != len(topic):
        return None
    try:
        return _Key(group.decode(), topic.decode())
    except UnicodeDecodeError:
        return None


_cached_key = lru_cache(maxsize=4_096)(_read_key)


def _int16(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 2], "big", signed=True)
