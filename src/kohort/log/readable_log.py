"""The read side of a partition's log: batches, offsets, and tasks that wait for more."""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import chain
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.log import segment_lookup
from kohort.log.aborted_index import AbortedTransaction, TruncatedIndexError
from kohort.log.backing import Backing
from kohort.log.damage import CorruptLogError
from kohort.log.problems import Problems
from kohort.log.producer_state_manager import ProducerStateManager
from kohort.log.segment import Segment
from kohort.log.segment_list import SegmentList
from kohort.log.segment_recovery import WrongIndexError
from kohort.log.stores import Records, loaded
from kohort.log.timestamp_lookup import Found, Lookup
from kohort.protocol.batches import HEADER_SIZE, read_header
from kohort.types import TopicPartition

_MAX_ABORTED: Final = 5_000
"""Aborted transactions that one read names (some 5 ms), unless its first batch alone has more."""


class ReadableLog:
    """The segments of one partition as readers see them; the `LogReader` of `PartitionLog`."""

    __slots__ = (
        "_closed", "_high_watermark_position", "_listeners", "_problems", "_producers",
        "_segments", "end_offset", "high_watermark", "start_offset", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        topic_partition: TopicPartition,
        backing: Backing,
        segments: list[Segment],
        start_offset: int,
        problems: Problems,
    ) -> None:
        """`segments` are in order, durable, the last one ready to append."""
        self.topic_partition = topic_partition
        self.start_offset = max(start_offset, segments[0].base_offset)
        self.end_offset = self.high_watermark = segments[-1].end_offset
        self._segments = SegmentList(segments, backing)
        self._producers = ProducerStateManager(self._segments, backing)
        self._problems = problems
        self._high_watermark_position: tuple[Segment, int] | None = None
        """Where the high watermark is, if that is not the end: a segment, and a position in it."""
        self._listeners: dict[object, Callable[[], None]] | None = None
        """None: nothing has waited yet."""
        self._closed: ErrorCode | None = None
        """Error code of every operation since the log was removed or closed."""

    def __repr__(self) -> str:
        return (
            f"<Log {self.topic_partition} [{self.start_offset}, {self.end_offset}) "
            f"{len(self._segments)} segments>"
        )

    @property
    def is_closed(self) -> bool:
        """Whether the log was removed or closed."""
        return self._closed is not None

    @property
    def can_reopen(self) -> bool:
        """Whether the log ended because the storage failed."""
        return self._closed is ErrorCode.kafka_storage_error

    @property
    def segments(self) -> SegmentList:
        """Its segments in order, the last one active, for reading only."""
        return self._segments

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def last_stable_offset(self) -> int:
        if not self._producers.is_transactional:
            return self.high_watermark
        unstable = self._producers.loaded().first_unstable(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.start_offset), self.high_watermark)

    # Batches

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, durable: bool = False
    ) -> bytes:
        limit = self.high_watermark if durable else self.end_offset
        records = self._read_up_to(limit, offset, max_bytes, at_least_one)
        return loaded(records, len(records))

    def fetch(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Records:
        return self._read_up_to(self.high_watermark, offset, max_bytes, at_least_one)

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Records, list[AbortedTransaction]]:
        stable = self.last_stable_offset
        while True:
            records = self._read_up_to(stable, offset, max_bytes, at_least_one)
            if not records or not self._producers.is_transactional:
                return records, []
            is_one = read_header(loaded(records, HEADER_SIZE)).size == len(records)
            try:
                aborted = self._aborted_in(offset, len(records), None if is_one else _MAX_ABORTED)
            except TruncatedIndexError as error:
                self.fail(f"the index of aborted transactions is damaged ({error})")
                raise
            if aborted is not None:
                return records, aborted
            max_bytes, at_least_one = len(records) // 2, True

    def _aborted_in(
        self, offset: int, size: int, limit: int | None
    ) -> list[AbortedTransaction] | None:
        """The aborted transactions of a read of `offset` that gave `size` bytes.

        None if they are more than `limit`.
        """
        segments = self._segments.since(offset)
        indexes = [segment.aborted for segment in segments if segment.aborted.store.size]
        if not indexes:
            return []
        end = self._next_offset_after(offset, size)
        aborted: list[AbortedTransaction] = []
        for transaction in chain.from_iterable(index.between(offset, end) for index in indexes):
            if transaction.first_offset < end:
                aborted.append(transaction)
                if len(aborted) - 1 == limit:
                    return None
            if transaction.last_stable_offset >= end:
                break
        return aborted

    def _read_up_to(self, limit: int, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        if self._closed is not None:
            raise self._refusal()
        if not self.start_offset <= offset <= self.end_offset:
            raise self._out_of_range(offset)
        if offset == self.end_offset:
            return b""
        try:
            if limit < self.end_offset:
                return self._read_before(limit, offset, max_bytes, at_least_one)
            return self._read(offset, max_bytes, at_least_one)
        except (CorruptLogError, WrongIndexError) as error:
            raise self._report_damage(error) from None

    def _read(self, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        segment = self._segments.active
        if offset >= segment.base_offset:
            return segment.read(offset, max_bytes, at_least_one)
        for segment in self._segments.since(offset):
            data = segment.read(offset, max_bytes, at_least_one)
            if data or segment.position(offset) < segment.size:
                return data
        raise self._segments.active.nothing_from(offset)

    def _read_before(self, limit: int, offset: int, max_bytes: int, at_least_one: bool) -> Records:
        """`_read` of what lies before the offset `limit`, which a batch begins with."""
        if offset >= limit:
            return b""
        segment = self._segments.holding(offset)
        if segment.end_offset <= limit:
            return self._read(offset, max_bytes, at_least_one)
        high_watermark = self._high_watermark_position if limit == self.high_watermark else None
        end = (
            high_watermark[1]
            if high_watermark and high_watermark[0] is segment
            else segment.position(limit)
        )
        return segment.read(offset, max_bytes, at_least_one, end)

    @property
    def is_loading(self) -> bool:
        return False

    async def loaded(self) -> None:
        pass

    def next_offset_after(self, offset: int, size: int) -> int:
        return self._next_offset_after(offset, size)

    def _next_offset_after(self, offset: int, size: int) -> int:
        for segment in self._segments.since(offset):
            position = segment.position(offset)
            if position < segment.size:
                return segment.next_offset_after(position, position + size)
        return self.end_offset

    # Lookups

    def offset_for_timestamp(self, timestamp: int) -> Lookup:
        return self._while_unchanged(
            lambda: segment_lookup.first_since(
                self._segments.since(self.start_offset), timestamp, self.start_offset
            )
        )

    def max_timestamp(self) -> Lookup:
        return self._while_unchanged(
            lambda: segment_lookup.latest_record(
                self._segments.since(self.start_offset), self.start_offset
            )
        )

    def _while_unchanged(self, begin: Callable[[], Lookup]) -> Lookup:
        """A lookup that begins again when segments were removed or replaced between its steps."""
        while True:
            self.ensure_open()
            changes, steps = self._segments.changes, begin()
            try:
                step = next(steps)
                while self._segments.changes == changes:
                    result = yield step
                    self.ensure_open()
                    if self._segments.changes == changes:
                        step = steps.send(result)
            except StopIteration as end:
                outcome: Found = end.value
                return outcome
            except (CorruptLogError, WrongIndexError) as error:
                raise self._report_damage(error) from None

    # Waiting

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._listeners is None:
            self._listeners = {}
        listeners, token = self._listeners, object()
        listeners[token] = callback

        def stop() -> None:
            listeners.pop(token, None)

        return stop

    def _notify(self) -> None:
        for callback in tuple((self._listeners or {}).values()):
            callback()

    async def wait_beyond(self, offset: int) -> None:
        more = asyncio.Event()
        stop = self.on_append(more.set)
        try:
            while self.high_watermark <= offset:
                self.ensure_open()
                more.clear()
                await more.wait()
        finally:
            stop()

    # The end

    def ensure_open(self) -> None:
        if self._closed is not None:
            raise self._refusal()

    def end(self, code: ErrorCode) -> None:
        """Close the files, raise `code` from every operation from now on, and wake the waiters."""
        self._closed = code
        self._high_watermark_position = None
        self._producers.close()
        self._segments.close()
        self._notify()

    def fail(self, problem: str) -> None:
        """End the log because the storage failed; it is opened again."""
        self.end(ErrorCode.kafka_storage_error)
        self._problems.begin(self.topic_partition, f"{problem}; the log is opened again")

    def _report_damage(self, error: CorruptLogError | WrongIndexError) -> KafkaError:
        """Report what a read found, and return it; a log with a wrong index is opened again."""
        if isinstance(error, WrongIndexError):
            with contextlib.suppress(OSError):  # else it is found again
                error.segment.forget_index()
            self.end(ErrorCode.kafka_storage_error)
        self._problems.begin(self.topic_partition, error.message)
        return error

    def _refusal(self) -> KafkaError:
        assert self._closed is not None
        return KafkaError(self._closed, f"the log of {self.topic_partition} is closed")

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.offset_out_of_range,
            f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]",
        )
