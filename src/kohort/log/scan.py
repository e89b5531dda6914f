"""Stepping over the batches in a store, header by header."""

from collections.abc import Iterator

from kohort.errors import ErrorCode, KafkaError
from kohort.log.storage import Store
from kohort.protocol.batch_format import HEADER_SIZE, MAGIC, SIZE_AT, SIZE_OVERHEAD, int32
from kohort.protocol.batches import Header, crc_is_right, read_header

_STEP = 8 * 1024
_SCAN = 1 << 20


def headers(store: Store, position: int) -> Iterator[tuple[int, Header]]:
    """(position, header) of every batch from `position` on.

    Raises KafkaError CORRUPT_MESSAGE where there is none, OSError.
    """
    chunk = b""
    start = position
    while position < store.size:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = store.read(position, _STEP), position
        header = read_header(chunk, position - start)
        if not is_plausible(header) or position + header.size > store.size:
            raise KafkaError(
                ErrorCode.corrupt_message, (f"no batch at position {position} of the segment")
            )
        yield position, header
        position += header.size


def intact(
    store: Store, position: int, next_offset: int
) -> Iterator[tuple[int, Header, memoryview]]:
    """(position, header, bytes) of the batches from `position` on, up to the first that is not as
    it was written.

    That is one that is cut, that fails its CRC, or whose offsets do not follow `next_offset` and
    each other. Raises OSError.
    """
    chunk = b""
    start = position
    while position + HEADER_SIZE <= store.size:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = store.read(position, _SCAN), position
        header = read_header(chunk, position - start)
        if (
            not is_plausible(header)
            or header.base_offset < next_offset
            or position + header.size > store.size
        ):
            return
        if position + header.size > start + len(chunk):
            chunk, start = store.read(position, max(header.size, _SCAN)), position
        batch = memoryview(chunk)[position - start : position - start + header.size]
        if not crc_is_right(batch, header):
            return
        yield position, header, batch
        next_offset = header.last_offset + 1
        position += header.size


def whole_batches(data: bytes, start: int, limit: int) -> tuple[int, int]:
    """(where the last batch starts, where it ends) of those in `data[start:limit]`; (start, 0) if
    none is whole.
    """
    last, end = start, 0
    position = start
    limit = min(limit, len(data))
    while position + HEADER_SIZE <= limit:
        size = int32.unpack_from(data, position + SIZE_AT)[0] + SIZE_OVERHEAD
        if size < HEADER_SIZE or position + size > limit:
            break
        last = position
        position = end = position + size
    return last, end


def is_plausible(header: Header) -> bool:
    """Whether this can be the header of a batch at all."""
    return (
        header.magic == MAGIC
        and header.length >= HEADER_SIZE - SIZE_OVERHEAD
        and header.last_offset_delta >= 0
    )
