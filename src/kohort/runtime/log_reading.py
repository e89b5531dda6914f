"""Reads the log of a shard, from its start or from the offset that a standby has reached.

The cost of a load depends on the number of batches: most have one record with a key that occurred
before. Such a key is recognised by the record's first bytes, without decoding it: see `KnownKeys`.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogReader
from kohort.protocol.batch_format import MAGIC
from kohort.protocol.batches import (
    CODEC_BITS,
    CONTROL,
    HEADER_SIZE,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    Header,
    read_header,
)
from kohort.protocol.records import read_pairs

_READ_BYTES: Final = 1 << 18
_SMALL: Final = 8
"""Maximum number of records of a small batch; larger batches are read faster in columns."""
_NOT_PLAIN: Final = CODEC_BITS | CONTROL
_NOT_KNOWN: Final = _NOT_PLAIN | TRANSACTIONAL
_LAST: Final = SIZE_OVERHEAD - 1
"""Add to a batch's length for the position of its last byte, the number of record headers."""
_SIZE: Final = struct.Struct(">8xi")
_SUMMARY: Final = struct.Struct(">8xi4xb4xh34xi")
"""Fields of a header: length, magic, attributes, number of records."""
_KEPT_KEYS: Final = 4_096
_KEPT_BYTES: Final = 512
"""Maximum size of a remembered key: the table bounds its entries, not their size."""


class Batches(NamedTuple):
    """The complete batches of one read."""

    data: bytes
    end_offset: int
    """Offset after the last one."""


NO_BATCHES: Final = Batches(b"", 0)


def read_batches(log: LogReader, offset: int | None = None) -> Iterator[Batches]:
    """All batches of the log from `offset` on, or from its start.

    Yields `NO_BATCHES` where batches must be loaded first: the caller then awaits `Log.loaded`.

    Raises KafkaError if the log is not served or damaged, OSError.
    """
    log.ensure_open()
    offset = log.start_offset if offset is None else offset
    while offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, durable=True)
        if not data and log.is_loading:
            yield NO_BATCHES
            continue
        if not data:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{log.topic_partition} holds nothing from offset {offset} on, though it ends at "
                f"{log.high_watermark}",
            )
        batches = batches_in(data)
        offset = batches.end_offset
        yield batches


def batches_in(data: bytes) -> Batches:
    """The complete batches in `data`."""
    last = following = 0
    while following + HEADER_SIZE <= len(data):
        last = following
        (length,) = _SIZE.unpack_from(data, last)
        if length < HEADER_SIZE - SIZE_OVERHEAD:
            break  # the reader of the batch refuses it
        following += length + SIZE_OVERHEAD
    return Batches(data, read_header(data, last).last_offset + 1)


def small_batch(
    data: bytes, position: int, header: Header
) -> list[tuple[bytes, bytes | None]] | None:
    """Key and value of the records of a small batch at `position`.

    None if the batch is large, compressed, a control batch, or must be read record by record.
    """
    count = header.record_count
    if count > _SMALL or header.attributes & _NOT_PLAIN:
        return None
    start = position + HEADER_SIZE
    return read_pairs(data, start, position + header.length + SIZE_OVERHEAD, count)


class _Latest(Protocol):
    def __setitem__(self, key: bytes, value: bytes, /) -> None: ...


class KnownKeys:
    """Recognises batches of one record by the bytes before its value.

    Two records of one size with the same bytes up to their values have the same key and layout. So
    the second key need not be decoded: that takes a third of the time.
    """

    __slots__ = ("_by_length", "_count")

    def __init__(self) -> None:
        self._by_length: dict[int, tuple[int, dict[bytes, bytes]]] = {}
        """Length of a batch → number of bytes before its value, and the key by these bytes."""
        self._count = 0

    def add(self, data: bytes, position: int, header: Header, key: bytes, value: bytes) -> None:
        """Recognise batches like this one, which `small_batch` has read as one record."""
        start, length = position + HEADER_SIZE, header.length
        size = length + SIZE_OVERHEAD - HEADER_SIZE - len(value) - 1
        if size > _KEPT_BYTES:
            return
        if self._count == _KEPT_KEYS:
            self._by_length, self._count = {}, 0
        keys_of_length = self._by_length.get(length)
        if keys_of_length is None or keys_of_length[0] != size:
            keys_of_length = self._by_length[length] = (size, {})
        keys_of_length[1][data[start : start + size]] = key
        self._count += 1

    def store_known(self, data: bytes, position: int, latest: _Latest) -> int:
        """Store the values of the batches from `position` on in `latest`, while their keys are
        known.

        Returns the position of the first batch that is not recognised.
        """
        by_length, unpack = self._by_length, _SUMMARY.unpack_from
        end = len(data)
        while position + HEADER_SIZE <= end:
            length, magic, attributes, count = unpack(data, position)
            keys_of_length = by_length.get(length)
            if keys_of_length is None or count != 1 or attributes & _NOT_KNOWN or magic != MAGIC:
                break
            size, keys = keys_of_length
            start = position + HEADER_SIZE
            value_at, last = start + size, position + length + _LAST
            if last >= end or data[last]:
                break
            key = keys.get(data[start:value_at])
            if key is None:
                break
            latest[key] = data[value_at:last]
            position = last + 1
        return position
