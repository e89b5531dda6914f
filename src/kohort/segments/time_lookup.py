"""The first record at or after a time, by the headers of all batches before it.

Time indexes are not used: they may belong to other files than the segments, and a wrong one would
leave out records.
"""

from typing import Final

import numpy as np

from kohort.columnar import kernels
from kohort.columnar.decoding import decode_batches
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.segments.batch_walk import Chunk, NoBatchError, walk
from kohort.segments.replica import Replica
from kohort.segments.segment import Segment
from kohort.segments.storage import File

_US_PER_MS: Final = 1_000
_LISTINGS: Final = 100
"""Times that files may change during a search."""


def offset_at(replica: Replica, timestamp: int) -> int | None:
    """The offset of the first record of `replica` at or after `timestamp` (ms), None without one.

    Damage is passed over. Raises KohortError if a file cannot be read.
    """
    searched = -1
    """Base offset of the last segment that has no such record."""
    for _ in range(_LISTINGS):
        for segment in replica.segments():
            if segment.base_offset <= searched:
                continue
            with replica.opened(segment) as file:
                if file is None:
                    break
                found = _in_segment(file, segment, timestamp)
            if found is not None:
                return found
            searched = segment.base_offset
        else:
            return None
    raise KohortError(f"{replica} changes faster than it can be read")


def _in_segment(file: File, segment: Segment, timestamp: int) -> int | None:
    try:
        for chunk in walk(file, segment):
            for number in np.flatnonzero(chunk.table[:, kernels.MAX_TIMESTAMP] >= timestamp):
                found = _in_batch(chunk, int(number), timestamp)
                if found is not None:
                    return found
    except NoBatchError:
        pass
    return None


def _in_batch(chunk: Chunk, number: int, timestamp: int) -> int | None:
    position, size = chunk.table[number, [kernels.POSITION, kernels.SIZE]].tolist()
    data = chunk.data[position : position + size]
    try:
        for batch in decode_batches(data, topic="", partition=0, include_batch_fields=True):
            times = batch.column("timestamp").to_numpy(zero_copy_only=False).view(np.int64)
            matching = np.flatnonzero(times >= timestamp * _US_PER_MS)
            if len(matching):
                offset: int = batch.column("offset")[int(matching[0])].as_py()
                return offset
    except KafkaError as error:
        if error.code is not ErrorCode.corrupt_message:
            raise
    return None
