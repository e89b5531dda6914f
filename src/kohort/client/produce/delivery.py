"""The outcome of each record: its place in the log, or the error of its delivery."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple

from kohort.errors import fresh
from kohort.types import TopicPartition

NO_OFFSET: Final = -1


class RecordMetadata(NamedTuple):
    """The place of a record in the log."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker did not report it: with acks=0, or if the batch was a duplicate."""
    timestamp: int
    """In ms; the broker's own if the topic has log append time."""


class BatchOutcome:
    """The outcome of a batch, which its deliveries share."""

    __slots__ = ("awaited", "done", "halves", "observed", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        """Base offset and append time in ms (-1: the create time counts)."""
        self.halves: tuple[BatchOutcome, BatchOutcome, int] | None = None
        """Outcomes of the two batches that replace it, and the number of records in the first."""
        self.awaited: Counter[int] = Counter()
        """Index of a record → number of callers that await its outcome."""
        self.observed: set[int] = set()
        """Indexes of the records whose error was raised or returned to a caller."""

    @property
    def is_settled(self) -> bool:
        return self.done.done() and (
            self.halves is None or all(half.is_settled for half in self.halves[:2])
        )

    async def settled(self) -> None:
        """Wait until the outcome of all its records is known."""
        await asyncio.wait([self.done])
        if self.halves is not None:
            for half in self.halves[:2]:
                await half.settled()

    def succeed(self, base_offset: int, append_time: int) -> None:
        """The batch is in the log from `base_offset` on (-1: unknown)."""
        if not self.done.done():
            self.done.set_result((base_offset, append_time))

    def fail(self, error: Exception) -> None:
        """The batch is given up with that error."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark it as read: `flush` raises it if no caller observed it

    def split(self, first: "BatchOutcome", second: "BatchOutcome", records: int) -> None:
        """Two batches replace this one; the first has so many of its records."""
        self.halves = first, second, records
        self.done.set_result((NO_OFFSET, -1))


class Delivery:
    """The outcome of one record: await it for its RecordMetadata, or for the error of its delivery.

    It need not be awaited: `Producer.flush` raises errors that no caller got. It can be awaited
    several times, and a cancelled wait changes nothing.
    """

    __slots__ = ("_index", "_outcome", "_timestamp")

    def __init__(self, outcome: BatchOutcome, index: int, timestamp: int) -> None:
        self._outcome = outcome
        self._index = index
        self._timestamp = timestamp

    def __repr__(self) -> str:
        return f"<Delivery {self._outcome.topic_partition} {'done' if self.done() else 'pending'}>"

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while not self.done():
            outcome, index = self._place()
            outcome.awaited[index] += 1
            try:
                # Many callers wait for this future, and one of them may be cancelled.
                yield from asyncio.wait([outcome.done]).__await__()
            finally:
                outcome.awaited -= Counter((index,))
        return self.result()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._place()[0].done.done()

    def result(self) -> RecordMetadata:
        """The place of the record.

        Raises the error of its delivery, and InvalidStateError if the outcome is not known yet.
        """
        outcome, index = self._place()
        if (error := outcome.done.exception()) is not None:
            outcome.observed.add(index)
            raise fresh(error)  # the caller has the delivery, and it the error
        base_offset, append_time = outcome.done.result()
        topic, partition = outcome.topic_partition
        offset = base_offset + index if base_offset >= 0 else NO_OFFSET
        timestamp = self._timestamp if append_time < 0 else append_time
        return RecordMetadata(topic, partition, offset, timestamp)

    def exception(self) -> BaseException | None:
        """The error of the delivery, None if the record is in the log.

        Raises InvalidStateError if the outcome is not known yet.
        """
        outcome, index = self._place()
        error = outcome.done.exception()
        if error is not None:
            outcome.observed.add(index)
        return error

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Have the event loop call `callback` with this delivery once the outcome is known."""
        self._place()[0].done.add_done_callback(lambda _: self._call(callback))

    def _call(self, callback: Callable[["Delivery"], object]) -> None:
        if self.done():
            callback(self)
        else:  # the batch was split
            self.add_done_callback(callback)

    def _place(self) -> tuple[BatchOutcome, int]:
        """The outcome of the batch that has the record now, and its index there."""
        outcome, index = self._outcome, self._index
        while outcome.halves is not None:
            first, second, records = outcome.halves
            outcome, index = (first, index) if index < records else (second, index - records)
        return outcome, index
