"""Reads the records around an offset, those that read_committed delivers."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from kohort.client.cluster import Cluster
from kohort.client.fetch import Fetcher
from kohort.client.record import Record
from kohort.client.transfers.marks import RecordMark, mark_of
from kohort.errors import KohortError
from kohort.types import TopicPartition

FETCH_BYTES: Final = 256 * 1024
"""Of one Fetch; a larger record batch arrives whole."""
_BACK: Final = (4, 64, 1_024, 16_384)
"""How many offsets the record before is looked for, step by step: compaction and transactions
leave offsets without a record."""


async def read_range(
    cluster: Cluster, tp: TopicPartition, start: int, end: int
) -> AsyncGenerator[Record, None]:
    """The committed records with offsets in [start, end); `end` is at most the last stable offset.

    Raises KohortError.
    """
    if start >= end:
        return
    timeout_ms = cluster.config.default_api_timeout_ms
    async with Fetcher(
        cluster,
        isolation="read_committed",
        out_of_range="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    ) as fetcher:
        fetcher.assign({tp: start})
        position = start
        while position < end:
            batch = await fetcher.next(tp, max_wait_ms=timeout_ms)
            if batch is None:
                raise KohortError(f"{tp}: no records from {position} on within {timeout_ms} ms")
            for record in batch:
                if record.offset >= end:
                    return
                yield record
            position = batch.next_offset


async def marks_around(
    cluster: Cluster, tp: TopicPartition, offset: int, ends: tuple[int, int]
) -> tuple[RecordMark | None, RecordMark | None]:
    """The last record before `offset`, and the first one from there on; None: there is none.

    `ends`: log start and last stable offset. Raises KohortError.
    """
    start, end = ends
    return (
        await _before(cluster, tp, min(offset, end), start),
        await _first(cluster, tp, max(offset, start), end),
    )


async def _first(cluster: Cluster, tp: TopicPartition, start: int, end: int) -> RecordMark | None:
    async with aclosing(read_range(cluster, tp, start, end)) as records:
        async for record in records:
            return mark_of(record)
    return None


async def _before(cluster: Cluster, tp: TopicPartition, end: int, start: int) -> RecordMark | None:
    upper = end
    for distance in _BACK:
        lower = max(end - distance, start)
        last = None
        async with aclosing(read_range(cluster, tp, lower, upper)) as records:
            async for record in records:
                last = record
        if last is not None:
            return mark_of(last)
        if lower == start:
            return None
        upper = lower
    return None
