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
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, Self, Unpack, cast

from kohort.client.background_loop import background_loop, run_here
from kohort.client.fetch import Batch, deserialize
from kohort.client.group import SIGNALS, Generation, listen
from kohort.client.group import ConsumerGroup as AsyncGroup
from kohort.client.group_options import GroupOptions
from kohort.client.metrics import GroupMetrics
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.record import K, V
from kohort.client.serialization import Deserializer, deserializers
from kohort.errors import KohortError
from kohort.types import TopicPartition


class _Offered:
    """A batch on its way from the loop to the application, and back when it is finished."""

    def __init__(self, generation: Generation, batch: Batch) -> None:
        self.generation = generation
        self.batch = batch
        self.finished = asyncio.Event()
        self.is_abandoned = False
        self._taken = False
        self._withdrawn = False
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether the application has it now; False if it was withdrawn."""
        with self._lock:
            self._taken = not self._withdrawn
            return self._taken

    def withdraw(self) -> bool:
        """Whether the application does not get it; False if it has it already."""
        with self._lock:
            self._withdrawn = not self._taken
            return self._withdrawn


class ConsumerGroup(Generic[K, V]):
    """One member of a group, for one thread at a time. Options as of `kohort.client`'s."""

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
        self._offered: queue.SimpleQueue[_Offered | None] = queue.SimpleQueue()
        self._in_work: _Offered | None = None
        self._is_handed_out = False
        """Whether the application has that batch; not while it is deserialized."""
        self._serving: Future[None] | None = None
        self._closed = False
        self._stops = False
        """Whether `stop` was called: batches on their way are not taken any more."""
        self._released: list[Callable[[], None]] = []
        """What ends listening for signals."""

    @property
    def group_id(self) -> str:
        return self._group.config.group_id

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics."""
        return tuple(self._group.config.topics)

    def __enter__(self) -> Self:
        self._loop.run(self._group.__aenter__())
        self._serving = self._loop.start(self._serve())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what waits to be, leave the group, and close all connections. Idempotent.

        The batch in work counts as not finished.
        """
        while self._released:
            self._released.pop()()
        if self._serving is None or self._closed:
            return
        self._closed = True
        self._loop.run(self._end(self._serving))

    def stop(self, reason: str = "the application stops") -> None:
        """Request the end, from any thread: the iteration ends behind the batch in work."""
        self._entered()
        self._stops = True
        self._loop.loop.call_soon_threadsafe(self._group.stop, reason)

    def stop_on(self, signals: Iterable[signal.Signals] = SIGNALS) -> None:
        """Call `stop` at the first of these signals, until the group is closed.

        Handlers that were there before are called as well, and put back. Raises ValueError outside
        of the main thread.
        """
        self._released.append(listen(signals, lambda number: self.stop(number.name)))

    def __iter__(self) -> Iterator[Batch[K, V]]:
        return self

    def __next__(self) -> Batch[K, V]:
        """The next batch of any partition; the one before it is finished.

        Ends after `stop`. Raises the error that ended the membership.
        """
        serving = self._entered()
        self._finish()
        while self._in_work is None:
            offered = self._offered.get()
            if offered is None:
                self._offered.put(None)  # for the next call
                if not self._closed:
                    serving.result()
                raise StopIteration
            if not self._stops and offered.take():
                self._in_work = offered
        batch = self._in_work.batch
        if self._deserializers is not None:
            run_here(deserialize(batch, self._deserializers, self._loop.wait))
        self._is_handed_out = True
        return cast("Batch[K, V]", batch)

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit the batch in work, or these offsets of partitions that the member has.

        Raises GenerationEndedError when a partition is no longer this member's, CommitError.
        """
        if self._in_work is None or not self._is_handed_out:
            raise KohortError("there is no batch in work whose offsets could be committed")
        generation, batch = self._in_work.generation, self._in_work.batch
        if offsets is None:
            offsets = {batch.topic_partition: batch.next_offset}
        self._loop.run(generation.commit(offsets))

    @property
    def generation(self) -> Generation[K, V]:
        """The generation of the batch in work, for `Transaction.commit_offsets`."""
        if self._in_work is None or not self._is_handed_out:
            raise KohortError("there is no batch in work whose generation could be named")
        return cast("Generation[K, V]", self._in_work.generation)

    def metrics(self) -> GroupMetrics:
        """Counters since the group was entered, and gauges of this moment; from any thread.

        Raises KohortError before that.
        """
        return self._group.metrics()

    def _entered(self) -> "Future[None]":
        self._loop.validate_process()
        if self._serving is None:
            raise KohortError("enter the group first: with ConsumerGroup(...) as group")
        return self._serving

    def _finish(self) -> None:
        if self._in_work is not None and self._is_handed_out:
            self._loop.loop.call_soon_threadsafe(self._in_work.finished.set)
            self._in_work, self._is_handed_out = None, False

    # On the loop

    async def _serve(self) -> None:
        try:
            async for generation in self._group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self._offer, partition)
        finally:
            self._offered.put(None)

    async def _offer(self, generation: Generation, partition: TopicPartition) -> None:
        async for batch in generation.records(partition):
            offered = _Offered(generation, batch)
            self._offered.put(offered)
            finished = asyncio.ensure_future(offered.finished.wait())
            ending = asyncio.ensure_future(generation.ending())
            try:
                await asyncio.wait((finished, ending), return_when=asyncio.FIRST_COMPLETED)
                if ending.done() and not finished.done():
                    if offered.withdraw():
                        return
                    await finished
                if offered.is_abandoned:
                    return
            finally:
                offered.withdraw()
                finished.cancel()
                ending.cancel()

    async def _end(self, serving: "Future[None]") -> None:
        self._group.stop("the application closes")
        if self._in_work is not None:
            self._in_work.is_abandoned = True
            self._in_work.finished.set()
        await self._group.close()
        if not serving.done():
            await asyncio.wait([asyncio.wrap_future(serving)])
