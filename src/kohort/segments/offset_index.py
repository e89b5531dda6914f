"""The sparse index of a segment: where batches with certain offsets are.

    .index      (relative offset: int32, position: int32)     last offset of a batch, and its start

An index only saves work: it may be missing, damaged, or belong to another file than the segment
that is open, if compaction has replaced both meanwhile. So a position counts only if the batch
there has the right CRC and does not lie behind the offset.
"""

from typing import Any, Final

import numpy as np
from crc32c import crc32c

from kohort.protocol.batch_format import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    MAGIC,
    read_header,
)
from kohort.segments.segment import Segment
from kohort.segments.storage import Directory, File

INDEX: Final = ".index"
_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


def last_position(directory: Directory, file: File, segment: Segment) -> int:
    """A position near the end of a segment at which a batch begins.

    Raises KohortError, OSError.
    """
    return position_before(directory, file, segment, 2**63 - 1)


def position_before(directory: Directory, file: File, segment: Segment, offset: int) -> int:
    """A position from which on a segment has all records from `offset` on: that of a batch.

    Raises KohortError, OSError.
    """
    content = directory.read(f"{segment.base_offset:020}{INDEX}")
    entries = np.frombuffer(content, _ENTRY, len(content) // _ENTRY.itemsize)
    entries = entries[entries["offset"] > 0]  # a broker allocates more than it has written
    offsets: Any = entries["offset"]
    number = int(np.searchsorted(offsets, offset - segment.base_offset, "right")) - 1
    if number < 0:
        return 0
    position = int(entries["position"][number])
    return position if _has_batch(file, position, segment.base_offset, offset) else 0


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
    file.seek(position + ATTRIBUTES_AT)
    return crc32c(file.read(header.size - ATTRIBUTES_AT)) == header.crc
