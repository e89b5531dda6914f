"""Records by their timestamps, in steps (see `timestamp_lookup`), in the segments of a log.

`segments` begin with the one that has the start offset; records before it do not count.
"""

from collections.abc import Iterable

from kohort.log import timestamp_lookup
from kohort.log.segment import Segment
from kohort.log.timestamp_lookup import Lookup


def first_since(segments: Iterable[Segment], timestamp: int, start_offset: int) -> Lookup:
    """The first record with that timestamp (ms) or a later one."""
    for segment in segments:
        record = yield from _first_in(segment, timestamp, start_offset)
        if record is not None:
            return record
        yield None
    return None


def latest_record(segments: Iterable[Segment], start_offset: int) -> Lookup:
    """The first record with the largest timestamp."""
    best: tuple[int, int] | None = None
    ranked: list[tuple[int, int, Segment]] = []
    for segment in segments:
        ranked.append((-segment.max_timestamp, segment.base_offset, segment))
        yield None  # the first look at a segment reads its index
    for _, base_offset, segment in sorted(ranked):
        if best is not None and timestamp_lookup.rank(best) < (-segment.max_timestamp, base_offset):
            break
        record = yield from _latest_in(segment, start_offset)
        best = min(filter(None, (best, record)), key=timestamp_lookup.rank, default=None)
        yield None
    return best


def _first_in(segment: Segment, timestamp: int, start_offset: int) -> Lookup:
    if segment.max_timestamp < timestamp:
        return None
    first = max(segment.offset_before_time(timestamp), start_offset)
    for number, (position, header) in enumerate(segment.headers(segment.position(first)), 1):
        if header.max_timestamp >= timestamp:
            batch = segment.log.read(position, header.size)
            record = yield from timestamp_lookup.first_since(batch, timestamp, start_offset)
            if record is not None:
                return record
        if not number % timestamp_lookup.HEADERS_PER_STEP:
            yield None
    return None


def _latest_in(segment: Segment, start_offset: int) -> Lookup:
    largest = segment.max_timestamp
    if start_offset <= segment.max_timestamp_offset:
        record = yield from _first_in(segment, largest, start_offset)
        if record is not None:
            return record
    # The record with the largest timestamp lies before `start_offset`, or a header is not true.
    first = segment.position(start_offset)
    best: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    while True:
        batches = yield from timestamp_lookup.best_batches(segment.headers(first), last)
        for position, header in batches:
            last = timestamp_lookup.rank_of_batch(header)
            if best is not None and timestamp_lookup.rank(best) < last:
                return best
            record = yield from timestamp_lookup.latest(
                segment.log.read(position, header.size), start_offset
            )
            best = min(filter(None, (best, record)), key=timestamp_lookup.rank, default=None)
        if not batches:
            return best
