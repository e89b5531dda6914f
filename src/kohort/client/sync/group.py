"""`ConsumerGroup` for programs without an event loop.

    with ConsumerGroup("billing", topics=["orders"], bootstrap="localhost:9092") as group:
        group.stop_on()                     # SIGTERM, SIGINT: finish the batch, commit, leave
        for batch in group:
            for record in batch:
                print(record.value)
            group.commit()

Heartbeats, rebalances and fetches run on the loop's thread, so that the application may take its
time. The batch that it has in work is handed over as by a worker of `kohort.client.ConsumerGroup`:
a partition is given up when its batch is finished, or when `drain_timeout_ms` are over.
"""

import asyncio
import queue
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar, Unpack, cast

from kohort.client.concurrency import background_loop, run_here
from kohort.client.config import ClientConfig, GroupConfig, GroupOptions
from kohort.client.fetch import Batch, deserialize
from kohort.client.group import (
    SIGNALS,
    BlockingRecords,
    BoundGeneration,
    Generation,
    OfferedBatch,
    OfferedBatches,
    RecordCursor,
    listen,
)
from kohort.client.group import ConsumerGroup as AsyncGroup
from kohort.client.method_names import SYNC_GROUP, MethodHints
from kohort.client.metrics import GroupMetrics
from kohort.client.offset_and_metadata import OffsetAndMetadata, validate_offsets
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.record import K, Record, V
from kohort.client.serialization import Deserializer, deserializers
from kohort.errors import KohortError
from kohort.types import TopicPartition

T = TypeVar("T")


class _Batches(Generic[K, V]):
    """Calls `take` with a time limit; no generator, which an interrupt would end."""

    def __init__(self, take_next: Callable[[float], Batch[K, V] | None], max_wait_s: float) -> None:
        self._take = take_next
        self._max_wait_s = max_wait_s

    def __iter__(self) -> Iterator[Batch[K, V] | None]:
        return self

    def __next__(self) -> Batch[K, V] | None:
        return self._take(self._max_wait_s)


@shows_options(GroupConfig, ClientConfig)
@checks_arguments
class ConsumerGroup(MethodHints, Generic[K, V]):
    """One member of a group, for one thread at a time. Options as of `kohort.client`'s."""

    _OTHER_NAMES = SYNC_GROUP

    def __init__(
        self,
        group_id: str,
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[GroupOptions],
    ) -> None:
        """Raises ConfigError for an option that is unknown or out of its bounds.

        Deserializers run in the thread that takes the batches.
        """
        self._loop = background_loop()
        self._group = AsyncGroup(group_id, topics=topics, pattern=pattern, **options)
        self._deserializers = deserializers(key_deserializer, value_deserializer)
        self._offered: deque[OfferedBatch | None] = deque()
        """Batches that may be taken, until the application has finished them; None: no more come.

        An interrupt may hit between any two instructions: a batch stays here until it is finished.
        """
        self._arrivals: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes the application: an entry for each offer, or a few more or fewer."""
        self._batches = OfferedBatches(
            self._offer,
            self._group.config.commit_interval_ms or self._group.config.auto_commit_interval_ms,
        )
        self._present: Generation[Any, Any] | None = None
        self._in_work: OfferedBatch | None = None
        self._handed_out: OfferedBatch | None = None
        """That batch once the application has it; not while it is deserialized."""
        self._generations: dict[TopicPartition, BoundGeneration] = {}
        """The generation of each partition's last batch, to commit offsets after it.

        The member may have lost the partition since then, and have it again.
        """
        self._serving: asyncio.Task[None] | None = None
        self._closed = False
        self._stops = False
        """Whether `stop` was called: batches on their way are not taken any more."""
        self._released: list[Callable[[], None]] = []
        """Ends listening for signals."""

    @property
    def group_id(self) -> str:
        return self._group.config.group_id

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the options."""
        return tuple(self._group.config.topics)

    def __enter__(self) -> Self:
        try:
            self._loop.run_to_its_end(self._begin())
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt may come when it has begun
                self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send pending commits, leave the group, and close all connections. Idempotent.

        The batch in work counts as unfinished. An interrupt ends draining, and is raised when all
        is closed; a second one is raised at once.
        """
        while self._released:
            self._released[-1]()
            self._released.pop()
        if self._serving is not None and not self._closed:
            self._loop.run_to_its_end(self._end(self._serving))

    def stop(self, reason: str = "the application stops") -> None:
        """Request the end, from any thread: the iteration ends after the batch in work."""
        self._entered()
        self._stops = True
        self._loop.loop.call_soon_threadsafe(self._group.stop, reason)

    def stop_on(self, signals: Iterable[signal.Signals] = SIGNALS) -> None:
        """Call `stop` at the first of these signals, until the group is closed.

        Handlers that were there before are called as well, and put back. Raises ValueError outside
        of the main thread.
        """
        self._released.append(listen(signals, lambda number: self.stop(number.name)))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to exactly these topics from now on: the group rebalances.

        Raises ConfigError for invalid names, and for a group with a pattern.
        """
        self._entered()
        self._call(lambda: self._group.subscribe(topics))

    # Positions

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this member has; none before the first rebalance ends."""
        return () if self._present is None else self._present.assignment

    def position(self, partition: TopicPartition) -> int | None:
        """Offset of the next batch; None until it is known.

        This and the methods below raise GenerationEndedError for a partition that this member does
        not have.
        """
        return self._call(
            lambda: _minus(
                self._generation_now().position(partition), self._batches.undelivered(partition)
            )
        )

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets from `position` to the high watermark; None before the first response."""
        return self._call(
            lambda: _minus(
                self._generation_now().lag(partition), -self._batches.undelivered(partition)
            )
        )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`: the next batch of the partition begins there.

        To process a batch again: `group.seek(batch.topic_partition, batch.first_offset)`. Raises
        GenerationEndedError also for the partition of the batch in work if this member lost it
        meanwhile and got it back: others may have processed the batch.
        """
        self._call(lambda: self._batches.seek(self._generation_for(partition), partition, offset))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no further batch of these partitions until `resume`; the member keeps them.

        The pause ends when another member gets the partition.
        """

        def pause() -> None:
            for partition in partitions:
                self._batches.pause(self._generation_now(), partition)

        self._call(pause)

    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out these again."""
        self._call(lambda: self._generation_now().resume(*partitions))

    def _generation_for(self, partition: TopicPartition) -> Generation[K, V]:
        """The generation of the batch in work if it is of this partition, else the present one."""
        present, in_work = self._generation_now(), self._batch_in_work
        if in_work is None or in_work.batch.topic_partition != partition:
            return present
        return in_work.generation

    def _generation_now(self) -> Generation[K, V]:
        self._entered()
        if self._present is None:
            raise KohortError("this member has no partitions yet: the group still rebalances")
        return self._present

    # Batches

    def __iter__(self) -> Iterator[Batch[K, V]]:
        return self

    def __next__(self) -> Batch[K, V]:
        """The next batch of any partition; the one before it is finished.

        Ends after `stop`. Raises the error that ended the membership.
        """
        while True:
            batch = self._next(None)
            if batch is not None:
                return batch

    def batches(self, *, max_wait_ms: float) -> Iterator[Batch[K, V] | None]:
        """Iterate as the group does, with None whenever no batch arrived within `max_wait_ms`.

        A program that collects records can then write them every so often. The batches that it
        collected count as finished: their partitions may be given up meanwhile, and `commit` of
        their offsets raises GenerationEndedError then. Raises ValueError for a negative time.
        """
        if not max_wait_ms >= 0:
            raise ValueError(f"max_wait_ms is {max_wait_ms!r}; it has to be 0 or more")
        return _Batches(self._next, max_wait_ms / 1_000)

    def records(self) -> Iterator[Record[K, V]]:
        """The records of all partitions one by one, with at-least-once commits.

        As `kohort.client.ConsumerGroup.records`: a record is finished when the next one is
        requested, and its offset is committed at an interval, on revocation and on leaving.
        """
        return BlockingRecords(self._take_for)

    def _take_for(self, cursor: RecordCursor[K, V]) -> None:
        if self._next(None) is not None and self._in_work is not None:
            cursor.begin(self._in_work)

    def _next(self, max_wait_s: float | None) -> Batch[K, V] | None:
        """The next batch; None if none arrived in time. Raises StopIteration."""
        serving = self._entered()
        self._finish()
        deadline = None if max_wait_s is None else time.monotonic() + max_wait_s
        while self._in_work is None:
            if not self._offered:
                try:
                    remaining = None if deadline is None else max(deadline - time.monotonic(), 0)
                    self._arrivals.get(timeout=remaining)
                except queue.Empty:
                    return None
                continue
            offered = self._offered[0]
            if offered is None:
                if not self._closed:
                    self._loop.run(_result_of(serving))
                raise StopIteration
            if self._stops:
                self._refuse(offered)
            elif offered.take():
                self._in_work = offered
            else:
                self._drop(offered)
        batch = self._in_work.batch
        if self._deserializers is not None:
            run_here(deserialize(batch, self._deserializers, self._loop.wait))
        self._generations[batch.topic_partition] = self._in_work.generation
        try:
            self._handed_out = self._in_work
            return cast("Batch[K, V]", batch)
        except BaseException:  # interrupted
            self._handed_out = None
            raise

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit the batch in work, or these offsets of partitions that the member has.

        Raises GenerationEndedError when a partition is no longer this member's, CommitError. An
        interrupt is raised when the outcome is known, within `default_api_timeout_ms`, with the
        error of the commit as its cause; a second one at once.
        """
        if offsets is None:
            if (in_work := self._batch_in_work) is None:
                raise KohortError("there is no batch in work whose offsets could be committed")
            batch = in_work.batch
            offsets = {batch.topic_partition: batch.next_offset}
        validate_offsets(offsets)
        if offsets:
            generation = self._generation_of(next(iter(offsets)))
            self._loop.run_uncancelled(generation.commit(offsets))

    def _generation_of(self, partition: TopicPartition) -> BoundGeneration:
        generation = self._generations.get(partition)
        if generation is None and (in_work := self._batch_in_work) is not None:
            generation = in_work.generation
        if generation is None:
            raise KohortError(f"{partition}: this member has handed out no batch of it to commit")
        return generation.with_others(self._generations)

    @property
    def generation(self) -> Generation[K, V]:
        """The generation of the batch in work, for `Transaction.commit_offsets`.

        Offsets of other partitions are those of batches that were handed out before: it refuses
        them if this member has lost the partition since then, as `commit` does.
        """
        if (in_work := self._batch_in_work) is None:
            raise KohortError("there is no batch in work whose generation could be named")
        return in_work.generation.with_others(self._generations)

    def metrics(self) -> GroupMetrics:
        """Counters since the group was entered, and gauges of this moment; from any thread.

        Raises KohortError before that.
        """
        return self._group.metrics()

    def _entered(self) -> asyncio.Task[None]:
        self._loop.validate_process()
        if self._serving is None:
            raise KohortError("enter the group first: with ConsumerGroup(...) as group")
        return self._serving

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._loop.run(call())

    def _finish(self) -> None:
        if (in_work := self._batch_in_work) is not None:
            self._loop.loop.call_soon_threadsafe(in_work.finished.set)
            self._drop(in_work)
            self._in_work = None

    @property
    def _batch_in_work(self) -> OfferedBatch | None:
        """The batch in work once the application has it."""
        return self._in_work if self._handed_out is self._in_work else None

    def _offer(self, offered: OfferedBatch | None) -> None:
        self._offered.append(offered)
        self._arrivals.put(None)

    def _refuse(self, offered: OfferedBatch) -> None:
        """Leave a batch to the partition's next owner."""
        if not offered.withdraw():  # an interrupt came between its `take` and the application
            offered.is_abandoned = True
            self._loop.loop.call_soon_threadsafe(offered.finished.set)
        self._drop(offered)

    def _drop(self, offered: OfferedBatch) -> None:
        if self._offered and self._offered[0] is offered:
            self._offered.popleft()
            with suppress(queue.Empty):
                self._arrivals.get_nowait()

    # On the loop

    async def _begin(self) -> None:
        await self._group.__aenter__()
        self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            async for generation in self._group:
                self._present = generation
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self._batches.work, partition)
        finally:
            self._offer(None)

    async def _end(self, serving: asyncio.Task[None]) -> None:
        self._group.stop("the application closes")
        for offered in tuple(self._offered):
            if offered is not None:
                offered.is_abandoned = True
                offered.finished.set()
        try:
            await self._group.close()
        finally:  # also if it is cancelled, which closes all the same
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.exception()  # mark it as read: the iteration has raised it, or has ended
            self._closed = True


async def _result_of(serving: asyncio.Task[None]) -> None:
    """Wait for a task that continues if the caller is interrupted. Raises its error."""
    await asyncio.wait([serving])
    serving.result()


def _minus(offset: int | None, difference: int) -> int | None:
    return None if offset is None else offset - difference
