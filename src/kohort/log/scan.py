"""Walks over the batches in a store, header by header.

A store is a file or memory that is read in chunks. `protocol.batch_format.iterate` is the walk over
bytes in memory.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode, KafkaError
from kohort.log.stores import Readable, Store
from kohort.protocol.batch_format import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    SIZE_AT,
    SIZE_OVERHEAD,
    int32,
)
from kohort.protocol.batches import Header, read_header

_CHECKED = struct.Struct(">qiibI2xi")
"""Of a header: base offset, length, leader epoch, magic, CRC, last offset delta."""
_MIN_LENGTH = HEADER_SIZE - SIZE_OVERHEAD
_EPOCH_AT = 12
_HEADER_CHUNK = 8 * 1024
_CHECK_CHUNK = 256 * 1024
"""Bytes that are read at once: they are still in the processor's cache for their CRC."""


def headers(store: Readable, position: int) -> Iterator[tuple[int, Header]]:
    """(position, header) of every batch from `position` on.

    Raises KafkaError CORRUPT_MESSAGE where there is none, OSError.
    """
    unpack, end = HEADER.unpack_from, store.size
    while position < end:
        chunk = store.read(position, _HEADER_CHUNK)
        start = 0
        while start + HEADER_SIZE <= len(chunk):
            header = Header._make(unpack(chunk, start))
            following = start + header.length + SIZE_OVERHEAD
            if not is_plausible(header) or position + following > end:
                raise _no_batch(position + start)
            yield position + start, header
            start = following
        if not start:
            raise _no_batch(position)
        position += start


def _no_batch(position: int) -> KafkaError:
    return KafkaError(ErrorCode.corrupt_message, f"no batch at position {position} of the segment")


def intact(
    store: Readable, position: int, next_offset: int
) -> Iterator[tuple[int, Header, memoryview]]:
    """(position, header, bytes) of the batches from `position` on, up to the first damaged one.

    A batch is damaged if it is cut, if it fails its CRC, or if its offsets do not follow
    `next_offset` and each other. So it is if its leader epoch, which lies outside the CRC, is lower
    than the one before, or larger than any of the store. Raises OSError.
    """
    for start, fields, batch in _intact(store, position, next_offset):
        yield start, Header._make(fields), batch


def extents(
    store: Readable, position: int, next_offset: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of the batches of `intact` that an index needs, in half the time. Raises OSError.

    (position, position behind it, base offset, last offset, max timestamp) of each.
    """
    for start, fields, batch in _intact(store, position, next_offset):
        base_offset = fields[0]
        yield start, start + len(batch), base_offset, base_offset + fields[6], fields[8]


def _intact(
    store: Readable, position: int, next_offset: int
) -> Iterator[tuple[int, tuple[Any, ...], memoryview]]:
    """`intact` with the fields of the header as they are unpacked.

    One loop without calls: a recovery comes here for every batch of a log.
    """
    unpack, checksum = HEADER.unpack_from, crc32c
    epoch, latest_epoch = 0, store.latest_epoch
    smallest = HEADER_SIZE - SIZE_OVERHEAD
    chunk_size = _CHECK_CHUNK
    while position + HEADER_SIZE <= store.size:
        chunk = memoryview(store.read(position, chunk_size))
        available = len(chunk)
        start = end = 0
        while start + HEADER_SIZE <= available:
            fields = unpack(chunk, start)
            base_offset, length, next_epoch, magic, crc, _, last_offset_delta = fields[:7]
            if magic != MAGIC or length < smallest or last_offset_delta < 0:
                return
            if base_offset < next_offset or not epoch <= next_epoch <= latest_epoch:
                return
            end = start + length + SIZE_OVERHEAD
            if end > available:
                break
            if checksum(chunk[start + ATTRIBUTES_AT : end]) != crc:
                return
            yield position + start, fields, chunk[start:end]
            next_offset, epoch = base_offset + last_offset_delta + 1, next_epoch
            start = end
        if position + end > store.size or (not start and end <= chunk_size):
            return  # it is cut
        position += start
        chunk_size = max(_CHECK_CHUNK, end - start)


class Checked(NamedTuple):
    """The end of a run of batches that were checked."""

    valid_end: int
    """Position behind the last one."""
    next_offset: int
    """Offset behind the last one."""
    last: int
    """Position of the last one; that of the start if there is none."""
    before_last: int
    """Offset behind the one before it, or the one that the first must not lie before."""
    is_end: bool
    """Whether no further valid batch follows."""


def check(
    store: Readable, start: int, next_offset: int, end: int, *, max_batches: int, needed: int
) -> Checked:
    """Check the batches of `intact` from `start` on, in half the time of `extents`.

    The last one is the first that begins at `end` or behind, or the first behind `needed` from
    which on there are `max_batches`. One loop without calls, and with nothing but integers: the
    first reads after a start come here for every batch. A test compares it with `intact`. Raises
    OSError.
    """
    unpack, checksum = _CHECKED.unpack_from, crc32c
    epoch, latest_epoch = 0, store.latest_epoch
    position = valid_end = last = start
    before_last, count, chunk_size = next_offset, 0, _CHECK_CHUNK
    while position + HEADER_SIZE <= store.size:
        chunk = memoryview(store.read(position, chunk_size))
        available = len(chunk)
        offset_in_chunk = following = 0
        while offset_in_chunk + HEADER_SIZE <= available:
            base_offset, length, next_epoch, magic, crc, last_offset_delta = unpack(
                chunk, offset_in_chunk
            )
            following = offset_in_chunk + length + SIZE_OVERHEAD
            if (
                magic != MAGIC
                or length < _MIN_LENGTH
                or last_offset_delta < 0
                or base_offset < next_offset
                or not epoch <= next_epoch <= latest_epoch
            ):
                return Checked(valid_end, next_offset, last, before_last, True)
            if following > available:
                break
            if checksum(chunk[offset_in_chunk + ATTRIBUTES_AT : following]) != crc:
                return Checked(valid_end, next_offset, last, before_last, True)
            last, before_last = position + offset_in_chunk, next_offset
            valid_end, next_offset = position + following, base_offset + last_offset_delta + 1
            epoch, offset_in_chunk = next_epoch, following
            count += 1
            if last >= end or (count >= max_batches and last > needed):
                return Checked(valid_end, next_offset, last, before_last, False)
        if position + following > store.size or (not offset_in_chunk and following <= chunk_size):
            break  # it is cut
        position += offset_in_chunk
        chunk_size = max(_CHECK_CHUNK, following - offset_in_chunk)
    return Checked(valid_end, next_offset, last, before_last, True)


def whole_batches(store: Store, position: int, limit: int) -> tuple[int, int] | None:
    """(position behind the last whole batch from `position` to `limit`, offset behind it).

    None if none is whole. It reads lengths alone, which takes a third of the time of `headers`:
    every fetch that reaches its byte limit comes here. A test compares the two on random batches.
    Raises OSError.
    """
    last_end: tuple[int, int] | None = None
    is_last = False
    while not is_last and position + HEADER_SIZE <= limit:
        chunk = store.read(position, min(limit - position, _HEADER_CHUNK))
        start, last = 0, -1
        while start + HEADER_SIZE <= len(chunk):
            size = int32.unpack_from(chunk, start + SIZE_AT)[0] + SIZE_OVERHEAD
            is_last = size < HEADER_SIZE or position + start + size > limit
            if is_last:
                break
            last = start
            start += size
        if last < 0:
            break
        position += start
        last_end = position, read_header(chunk, last).last_offset + 1
    return last_end


def is_plausible(header: Header) -> bool:
    """Whether this can be the header of a batch at all."""
    return (
        header.magic == MAGIC
        and header.length >= HEADER_SIZE - SIZE_OVERHEAD
        and header.last_offset_delta >= 0
    )


class TrailingBatches(NamedTuple):
    """The valid batches after a damaged place."""

    position: int
    """Position of the first one."""
    offset: int
    """Its base offset."""
    batches: int
    end_offset: int
    """Offset after the last of them."""


def trailing_batches(store: Store, position: int, next_offset: int) -> TrailingBatches | None:
    """The valid batches from `position` on, wherever they start; None if there are none.

    A batch counts if its CRC is right and its offsets follow `next_offset`. Those in the middle of
    other batches (a record may hold one) are not told apart: where in doubt, there is one. Raises
    OSError.
    """
    first: tuple[int, int] | None = None
    count = 0
    while (start := next_start(store, position, next_offset)) is not None:
        for position, header, _ in intact(store, start, next_offset):
            first = first or (position, header.base_offset)
            count += 1
            next_offset = header.last_offset + 1
            start = position + header.size
        position = start
    return None if first is None else TrailingBatches(*first, count, next_offset)


def next_start(store: Store, position: int, next_offset: int) -> int | None:
    """Position of the next valid batch, not before `position`; None if there is none.

    Its CRC is right, and its offsets do not lie before `next_offset`. Raises OSError.
    """
    start_of_epoch = bytes(4 - (store.latest_epoch.bit_length() + 7) // 8)
    while position + HEADER_SIZE <= store.size:
        chunk = store.read(position, _CHECK_CHUNK)
        candidate = 0
        while (magic := chunk.find(MAGIC, candidate + MAGIC_AT)) >= 0:
            candidate = magic - MAGIC_AT
            if candidate + HEADER_SIZE > len(chunk):
                break
            if (
                chunk.startswith(start_of_epoch, candidate + _EPOCH_AT)
                and read_header(chunk, candidate).base_offset >= next_offset
                and _fits(store, position + candidate, next_offset)
            ):
                return position + candidate
            candidate += 1
        position += max(len(chunk) - HEADER_SIZE + 1, 1)
    return None


def _fits(store: Store, position: int, next_offset: int) -> bool:
    # One read of a batch, not of a chunk: there may be many candidates.
    header = read_header(store.read(position, HEADER_SIZE))
    if not is_plausible(header) or position + header.size > store.size:
        return False
    return next(intact(store, position, next_offset), None) is not None
