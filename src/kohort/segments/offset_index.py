"""The sparse index of a segment: where batches with certain offsets are.

    .index      (relative offset: int32, position: int32)     last offset of a batch, and its start

An index only saves work: it may be missing, damaged, or belong to another file than the segment
that is open, if compaction has replaced both meanwhile. So a position counts only if the batch
there has the right CRC and does not lie behind the offset.
"""

from typing import Any, Final

import numpy as np

from kohort.protocol.batch_format import HEADER_SIZE, MAGIC, crc_is_right, read_header
from kohort.segments.segment import Segment
from kohort.segments.storage import Directory, File

_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


def has_index(directory: Directory, segment: Segment) -> bool:
    """Whether a segment has an index that is not empty. Raises KohortError."""
    return directory.size(_name(segment)) > 0


def last_position(directory: Directory, file: File, segment: Segment) -> int:
    """A position near the end of a segment at which a batch begins.

    Raises KohortError, OSError.
    """
    return position_before(directory, file, segment, 2**63 - 1)


def position_before(directory: Directory, file: File, segment: Segment, offset: int) -> int:
    """A position from which on a segment has all records from `offset` on: that of a batch.

    Raises KohortError, OSError.
    """
    content = directory.read(_name(segment))
    entries = np.frombuffer(content, _ENTRY, len(content) // _ENTRY.itemsize)
    entries = entries[entries["offset"] > 0]  # a broker allocates more than it has written
    offsets: Any = entries["offset"]
    number = int(np.searchsorted(offsets, offset - segment.base_offset, "right")) - 1
    if number < 0:
        return 0
    position = int(entries["position"][number])
    return position if _has_batch(file, position, segment.base_offset, offset) else 0


def _name(segment: Segment) -> str:
    return f"{segment.base_offset:020}.index"


def _has_batch(file: File, position: int, base_offset: int, offset: int) -> bool:
    size = file.size()
    if not 0 < position <= size - HEADER_SIZE:
        return False
    file.seek(position)
    header = read_header(file.read(HEADER_SIZE))
    if not (
        header.magic == MAGIC
        and base_offset <= header.base_offset <= offset
        and HEADER_SIZE <= header.size <= size - position
    ):
        return False
    file.seek(position)
    return crc_is_right(file.read(header.size), header)
