"""Iterates over the records of all partitions of a member, and commits finished records.

A record is finished when the next one is requested. So each is processed at least once: offsets are
committed at an interval, when a partition is given up, and when the member leaves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, Protocol, cast

from kohort.client.group.offered_batch import OfferedBatch, OfferedBatches
from kohort.client.record import K, Record, V
from kohort.errors import KohortError, fresh


class RecordCursor(Generic[K, V]):
    """The records of one batch after the other."""

    def __init__(self) -> None:
        self._offered: OfferedBatch | None = None
        self._remaining: Iterator[Record[K, V]] = iter(())
        self._last_record: Record[K, V] | None = None
        self._failure: KohortError | None = None

    def begin(self, offered: OfferedBatch) -> None:
        """Continue with the records of this batch."""
        self._offered, self._remaining = (
            offered,
            cast("Iterator[Record[K, V]]", iter(offered.batch)),
        )
        self._last_record = None

    def next(self) -> Record[K, V] | None:
        """The next record, which finishes the previous one; None: the batch is finished.

        When the partition ends, or after a seek, no more records of the batch are returned. Raises
        KohortError at each call for an unreadable batch: later offsets must not be committed.
        """
        if self._failure is not None:
            raise fresh(self._failure)
        offered = self._offered
        if offered is None:
            return None
        if self._last_record is not None:
            offered.position, self._last_record = self._last_record.offset + 1, None
        if not offered.is_ending and not offered.is_sought:
            try:
                self._last_record = next(self._remaining, None)
            except KohortError as error:
                self._failure = fresh(error)
                raise
            if self._last_record is not None:
                return self._last_record
            offered.position = offered.batch.next_offset
        self._offered = None
        return None


class Group(Protocol):
    """`ConsumerGroup` as the iteration uses it."""

    def stop(self, reason: str = ...) -> None: ...

    def __aiter__(self) -> AsyncIterator[Any]: ...


class GroupRecords(AsyncIterator[Record[K, V]]):
    """`ConsumerGroup.records`."""

    def __init__(self, group: Group, commit_interval_ms: int) -> None:
        self._group = group
        self._queue: asyncio.Queue[OfferedBatch | None] = asyncio.Queue()
        self._workers = OfferedBatches(self._queue.put_nowait, commit_interval_ms)
        self._in_work: OfferedBatch | None = None
        self._cursor: RecordCursor[K, V] = RecordCursor()
        self._serving = asyncio.create_task(self._serve(), name="the records of a group")

    async def __anext__(self) -> Record[K, V]:
        while True:
            record = self._cursor.next()
            if record is not None:
                return record
            if self._in_work is not None:
                self._in_work.finished.set()
                self._in_work = None
            offered = await self._queue.get()
            if offered is None:
                self._queue.put_nowait(None)  # for the next call
                self._serving.result()
                raise StopAsyncIteration
            if offered.take():
                self._in_work = offered
                self._cursor.begin(offered)

    async def close(self) -> None:
        """Commit finished records, without the one in work, and leave the group."""
        self._group.stop("the application closes")
        if self._in_work is not None:
            self._in_work.is_abandoned = True
            self._in_work.finished.set()
        await asyncio.wait([self._serving])
        if not self._serving.cancelled():
            self._serving.exception()  # mark it as read

    async def _serve(self) -> None:
        try:
            async for generation in self._group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self._workers.work, partition)
        finally:
            self._queue.put_nowait(None)


class BlockingRecords(Generic[K, V]):
    """`records` of the blocking group; no generator, which an interrupt would end."""

    def __init__(self, take_next: Callable[[RecordCursor[K, V]], None]) -> None:
        """`take_next` waits for the next batch and begins it; StopIteration at the end."""
        self._take = take_next
        self._cursor: RecordCursor[K, V] = RecordCursor()

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self

    def __next__(self) -> Record[K, V]:
        while True:
            record = self._cursor.next()
            if record is not None:
                return record
            self._take(self._cursor)
