"""Walks over the batches in a store, header by header.

A store is a file or memory that is read in chunks. `protocol.batch_format.iterate` is the walk over
bytes in memory.
"""

from collections.abc import Iterator

from kohort.errors import ErrorCode, KafkaError
from kohort.log.storage import Store
from kohort.protocol.batch_format import HEADER_SIZE, MAGIC, SIZE_AT, SIZE_OVERHEAD, int32
from kohort.protocol.batches import Header, crc_is_right, read_header

_STEP = 8 * 1024
_SCAN = 1 << 20


class _Window:
    """The chunk of a store that was read last."""

    def __init__(self, store: Store, chunk_bytes: int) -> None:
        self._store = store
        self._chunk_bytes = chunk_bytes
        self._chunk = b""
        self._start = 0

    def header(self, position: int) -> Header | None:
        """The header at `position`, None if no whole batch can be there."""
        if position + HEADER_SIZE > self._store.size:
            return None
        header = read_header(*self._have(position, HEADER_SIZE))
        whole = is_plausible(header) and position + header.size <= self._store.size
        return header if whole else None

    def batch(self, position: int, header: Header) -> memoryview:
        chunk, at = self._have(position, header.size)
        return memoryview(chunk)[at : at + header.size]

    def _have(self, position: int, size: int) -> tuple[bytes, int]:
        """A chunk that holds `size` bytes from `position` of the store, and their position in it."""
        if position + size > self._start + len(self._chunk):
            self._chunk = self._store.read(position, max(size, self._chunk_bytes))
            self._start = position
        return self._chunk, position - self._start


def headers(store: Store, position: int) -> Iterator[tuple[int, Header]]:
    """(position, header) of every batch from `position` on.

    Raises KafkaError CORRUPT_MESSAGE where there is none, OSError.
    """
    window = _Window(store, _STEP)
    while position < store.size:
        header = window.header(position)
        if header is None:
            raise KafkaError(
                ErrorCode.corrupt_message, f"no batch at position {position} of the segment"
            )
        yield position, header
        position += header.size


def intact(
    store: Store, position: int, next_offset: int
) -> Iterator[tuple[int, Header, memoryview]]:
    """(position, header, bytes) of the batches from `position` on, up to the first damaged one.

    A batch is damaged if it is cut, if it fails its CRC, or if its offsets do not follow
    `next_offset` and each other. Raises OSError.
    """
    window = _Window(store, _SCAN)
    while (header := window.header(position)) is not None and header.base_offset >= next_offset:
        batch = window.batch(position, header)
        if not crc_is_right(batch, header):
            return
        yield position, header, batch
        next_offset = header.last_offset + 1
        position += header.size


def whole_batches(data: bytes, start: int, limit: int) -> tuple[int, int]:
    """(start of the last batch, its end) of the whole batches in `data[start:limit]`.

    (start, 0) if none is whole. It reads lengths alone, which takes a third of the time of
    `protocol.batch_format.iterate`: every fetch that reaches its byte limit comes here. A test
    compares the two on random batches.
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
