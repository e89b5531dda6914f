"""Lookups of records by timestamp, in steps: some read the headers of a whole segment.

An index leads to the batch in a few reads, as long as timestamps rise. Headers are stepped over
where they do not, and behind a start offset in the middle of a segment: no index tells the largest
timestamp of what follows. A batch may hold millions of records.

A lookup is therefore a generator. Each of its steps takes well below a millisecond, and other tasks
run between them.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import nsmallest
from typing import Final, TypeAlias

from kohort.protocol.batches import Header, decode_records, read_header

Found: TypeAlias = tuple[int, int] | None
"""(offset, timestamp) of a record, None if there is none."""
Work: TypeAlias = Callable[[], Found]
Lookup: TypeAlias = Generator[Work | None, Found, Found]
"""Yields None after a step, or a function to call in a thread; it is sent that function's result.
"""

HEADERS_PER_STEP: Final = 32
_MAX_INLINE_RECORDS: Final = 500
_MAX_INLINE_BYTES: Final = 512
"""Records, and compressed bytes, up to which a batch is read at once: a kilobyte may hold much."""
_CANDIDATES: Final = 16
"""Batches that one pass over the headers selects."""


def rank(record: tuple[int, int]) -> tuple[int, int]:
    """Order of records, by (offset, timestamp): larger timestamps first, then lower offsets."""
    return -record[1], record[0]


def rank_of_batch(header: Header) -> tuple[int, int]:
    """The first rank that a record of the batch can have."""
    return -header.max_timestamp, header.base_offset


def best_batches(
    headers: Iterable[tuple[int, Header]], after: tuple[int, int] | None
) -> Generator[None, None, list[tuple[int, Header]]]:
    """The (position, header) of those with the first ranks behind `after`, in order of rank."""
    best: list[tuple[int, Header]] = []
    some: list[tuple[int, Header]] = []
    for batch in headers:
        if after is None or rank_of_batch(batch[1]) > after:
            some.append(batch)
        if len(some) >= HEADERS_PER_STEP:
            best = nsmallest(_CANDIDATES, best + some, key=_rank_of_found)
            some = []
            yield
    return nsmallest(_CANDIDATES, best + some, key=_rank_of_found)


def _rank_of_found(batch: tuple[int, Header]) -> tuple[int, int]:
    return rank_of_batch(batch[1])


def first_since(batch: bytes, timestamp: int, start_offset: int) -> Lookup:
    """The first record of a batch with at least that timestamp, from `start_offset` on."""

    def matching() -> Found:
        return next(
            (
                (record.offset, record.timestamp)
                for record in decode_records(batch)
                if record.timestamp >= timestamp and record.offset >= start_offset
            ),
            None,
        )

    return (yield matching) if _is_long(batch) else matching()


def latest(batch: bytes, start_offset: int) -> Lookup:
    """The first record of a batch with its largest timestamp, from `start_offset` on."""

    def largest() -> Found:
        return min(
            (
                (record.offset, record.timestamp)
                for record in decode_records(batch)
                if record.offset >= start_offset
            ),
            key=rank,
            default=None,
        )

    return (yield largest) if _is_long(batch) else largest()


def _is_long(batch: bytes) -> bool:
    header = read_header(batch)
    return header.record_count > _MAX_INLINE_RECORDS or (
        bool(header.codec) and header.size > _MAX_INLINE_BYTES
    )
