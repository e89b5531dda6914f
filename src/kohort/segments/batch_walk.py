"""Walks the record batches of a segment file, some megabytes at a time.

A broker appends to the last segment, and may be killed: it may end within a batch, or with zeros
that were never written. Anything else that is no batch is damage, and the rest of the segment
cannot be read, because nothing marks where the next batch begins.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kohort.columnar import kernels
from kohort.columnar.payloads import as_bytes
from kohort.columnar.selection import Table, rising, scan_valid
from kohort.protocol.batch_format import HEADER_SIZE, MAGIC, MAGIC_AT, SIZE_AT, SIZE_OVERHEAD, int32
from kohort.segments.segment import Segment
from kohort.segments.storage import File

_CHUNK: Final = 4 * 1024 * 1024
_OFFSETS: Final = 2**31
"""Offsets from the base offset of a segment on that its index can have."""


class Chunk(NamedTuple):
    """Whole record batches."""

    data: memoryview
    position: int
    """In the file."""
    table: Table
    """Their headers, with positions in `data`."""


class NoBatch(NamedTuple):
    """Bytes of a segment that are no whole record batch."""

    position: int
    problem: str
    may_be_end: bool
    """A broker that was killed leaves the end of the last segment like that."""


class NoBatchError(Exception):
    """A segment does not end with a whole batch, or has something else between its batches."""

    def __init__(self, position: int, problem: str, *, may_be_end: bool) -> None:
        super().__init__(problem)
        self.found = NoBatch(position, problem, may_be_end)


def walk(
    file: File, segment: Segment, position: int = 0, end_offset: int | None = None
) -> Iterator[Chunk]:
    """The batches from `position` on. Their offsets rise, and are below `end_offset`.

    Raises NoBatchError behind the last one that can be read, unless the file ends there. Raises
    OSError.
    """
    end = file.size()
    next_offset = segment.base_offset
    limit = next_offset + _OFFSETS if end_offset is None else end_offset
    size = _CHUNK
    while position < end:
        file.seek(position)
        data = memoryview(file.read_buffer(min(size, end - position)))
        table, invalid = scan_valid(as_bytes(data))
        count = rising(table, next_offset, limit)
        used = 0
        if count:
            last = table[count - 1]
            used = int(last[kernels.POSITION] + last[kernels.SIZE])
            yield Chunk(data[:used], position, table[:count])
            position += used
            next_offset = int(last[kernels.LAST_OFFSET]) + 1
        if count < len(table):
            first, last = table[count, [kernels.BASE_OFFSET, kernels.LAST_OFFSET]].tolist()
            problem = f"a batch with offsets from {first} to {last} is out of order"
            raise NoBatchError(position, problem, may_be_end=False)
        if invalid is not None:
            raise _no_batch(file, data[invalid:], position, end)
        size = _CHUNK
        if not used:
            size = _size_of_batch(data)
            if len(data) < min(_CHUNK, end - position) or size > end - position:
                raise NoBatchError(position, "the file ends within a batch", may_be_end=True)


class LogEnd(NamedTuple):
    """The end of a log, by its last segment."""

    offset: int
    """Behind the last whole batch. A batch that is damaged counts as one offset."""
    is_damaged: bool
    """Whether the segment cannot be read on there: it may have further records."""
    followed: int
    """The offset behind the last batch, or before it if that does not follow the one before.

    Nothing is removed from the segment that a broker appends to. So the base offset of such a batch
    is damaged, or the log is that of a replica that has fetched compacted segments.
    """

    @property
    def may_have_more(self) -> bool:
        """Whether the segment may have records behind `followed`."""
        return self.is_damaged or self.followed < self.offset


def end_of(file: File, segment: Segment, position: int) -> LogEnd:
    """The end of a segment, from a batch at `position` on. Raises OSError."""
    end = followed = segment.base_offset
    is_first = position > 0
    try:
        for chunk in walk(file, segment, position):
            table = chunk.table
            before = int(table[-2, kernels.LAST_OFFSET]) + 1 if len(table) > 1 else end
            base = int(table[-1, kernels.BASE_OFFSET])
            end = int(table[-1, kernels.LAST_OFFSET]) + 1
            followed = end if base == before or (is_first and len(table) == 1) else before
            is_first = False
    except NoBatchError as error:
        if not error.found.may_be_end:
            return LogEnd(end + 1, is_damaged=True, followed=end + 1)
    return LogEnd(end, is_damaged=False, followed=followed)


def _size_of_batch(data: memoryview) -> int:
    """The size that a batch has by its header; the end of its bytes may be missing."""
    if len(data) < HEADER_SIZE:
        return HEADER_SIZE
    size: int = int32.unpack_from(data, SIZE_AT)[0] + SIZE_OVERHEAD
    return size


def _no_batch(file: File, rest: memoryview, position: int, end: int) -> NoBatchError:
    """The error for `rest`, which is at `position` and is no batch."""
    if _is_zero(rest) and _is_zero_from(file, position + len(rest), end):
        return NoBatchError(position, "zeros up to the end of the file", may_be_end=True)
    if rest[MAGIC_AT] < MAGIC:
        return NoBatchError(
            position,
            f"no record batch (message format v{rest[MAGIC_AT]}, of brokers before 0.11, if these "
            "are records)",
            may_be_end=False,
        )
    return NoBatchError(position, "no record batch", may_be_end=False)


def _is_zero_from(file: File, position: int, end: int) -> bool:
    file.seek(position)
    while position < end:
        data = file.read(min(_CHUNK, end - position))
        if not data or not _is_zero(data):
            return not data
        position += len(data)
    return True


def _is_zero(data: Any) -> bool:
    return not np.frombuffer(data, np.uint8).any()
