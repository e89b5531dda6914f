"""The batches of a partition, until the member gives the partition up.

`RecordStream` is an iterator and not a generator: a generator that is cancelled is finished, and a
worker that waits with a time limit (`asyncio.wait_for`, `asyncio.timeout`) would read nothing more.
A batch that was taken but not returned is kept in `OwnedPartition.pending`. So a cancelled wait
loses nothing, and the next wait finds its deserializer still running.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from kohort.client.errors import UNKNOWN_TOPIC, GaveUpError, TopicRecreatedError
from kohort.client.fetch import Batch, Fetcher, deserialize
from kohort.client.group.owned_partition import OwnedPartition, PendingBatch
from kohort.client.serialization import Deserializers
from kohort.errors import KafkaError, KohortError

OnGone: TypeAlias = Callable[[OwnedPartition, KohortError], None]
POLL_INTERVAL_S: Final = 1.0
"""Time limit of one wait for the fetcher."""


class RecordStream(AsyncIterator[Batch | None]):
    """Batches until the partition begins to end. Batches fetched ahead are left to its next owner.

    With `max_wait_ms`, None when so long no batch was ready. A cancelled `__anext__` takes nothing;
    the next one continues. While a batch is deserialized or in work, `owned.busy_since` is set;
    `on_passed` is called when the next one is requested. Raises the fetcher's errors, and
    KohortError if another task reads the partition. An error that says that the topic is gone goes
    to `on_gone` instead, and ends the stream.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        owned: OwnedPartition,
        on_gone: OnGone,
        on_passed: Callable[[OwnedPartition], None],
        deserializers: Deserializers | None = None,
        max_wait_ms: float | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._owned = owned
        self._on_gone = on_gone
        self._on_passed = on_passed
        self._deserializers = deserializers
        self._max_wait_s = None if max_wait_ms is None else max_wait_ms / 1_000
        self._identity = object()
        """Represents the stream in `owned.reader`, which must not keep the stream alive."""
        self._is_waiting = False
        self._has_batch_in_work = False
        if max_wait_ms is not None and not max_wait_ms >= 0:
            raise ValueError(f"max_wait_ms is {max_wait_ms!r}; it has to be 0 or more")

    def __aiter__(self) -> "RecordStream":
        return self

    async def __anext__(self) -> Batch | None:
        self._validate_only_reader()
        self._owned.reader = asyncio.current_task(), self._identity
        self._pass()
        self._is_waiting = True
        try:
            return await self._next()
        finally:
            self._is_waiting = False

    async def aclose(self) -> None:
        """Leave the stream; another task may read the partition."""
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        # A stream that was left by `break` ends later than the next one of its task begins.
        if self._owned.reader[1] is self._identity:
            self._owned.reader = None, None
            if self._has_batch_in_work:
                self._owned.busy_since = None
        self._has_batch_in_work = False

    def _validate_only_reader(self) -> None:
        reader, identity = self._owned.reader
        is_other = (
            identity is not self._identity
            and reader is not None
            and reader is not asyncio.current_task()
            and not reader.done()
        )
        if is_other or self._is_waiting:
            name = reader.get_name() if reader is not None else ""
            raise KohortError(
                f"{self._owned.partition} is read by the task {name!r} already, and each batch "
                "goes to one reader only. Read it in one task, and pass records on to others"
            )

    def _pass(self) -> None:
        """The application asks for more: the batch in work is finished."""
        if self._has_batch_in_work:
            self._has_batch_in_work, self._owned.busy_since = False, None
            self._on_passed(self._owned)

    async def _next(self) -> Batch | None:
        owned, loop = self._owned, asyncio.get_running_loop()
        deadline = float("inf") if self._max_wait_s is None else loop.time() + self._max_wait_s
        while owned.ending.end is None:
            remaining = max(deadline - loop.time(), 0)
            try:
                batch = await self._next_within(min(remaining, POLL_INTERVAL_S))
            except (TopicRecreatedError, GaveUpError, KafkaError) as error:
                if not _means_topic_deleted(error):
                    raise
                self._on_gone(owned, error)
                await _unless_ending(owned, None, min(remaining, POLL_INTERVAL_S))
                batch = None
            if batch is not None:
                return self._hand_out(batch)
            if remaining == 0 and owned.ending.end is None:
                await asyncio.sleep(0)  # a loop with `max_wait_ms=0` leaves others their turn
                return None
        self._leave()
        raise StopAsyncIteration

    def _hand_out(self, batch: Batch) -> Batch:
        owned = self._owned
        self._has_batch_in_work = True
        self._mark_busy(batch)
        owned.last_offset, owned.last_epoch = batch.next_offset, batch.leader_epoch
        return batch

    def _mark_busy(self, batch: Batch) -> None:
        self._owned.busy_since = asyncio.get_running_loop().time()
        self._owned.busy_with = f"the batch before offset {batch.next_offset}"

    async def _next_within(self, seconds: float) -> Batch | None:
        """The next batch; None if there is none yet, or the partition begins to end."""
        if self._owned.pending is None:
            batch = await _fetched(self._fetcher, self._owned, seconds)
            if batch is None or self._deserializers is None:
                return batch
            self._mark_busy(batch)
            self._owned.pending = _pending(self._owned, batch, self._deserializers)
            return None
        return await self._deserialized(self._owned.pending, seconds)

    async def _deserialized(self, pending: PendingBatch, seconds: float) -> Batch | None:
        """The deserialized batch; None if it is not ready, or may not be returned.

        It may not if the partition begins to end, which does not wait for deserializers, or after a
        `seek`.
        """
        owned = self._owned
        if owned.sought == pending.sought:
            await asyncio.wait((pending.work,), timeout=seconds)
        is_wanted = owned.ending.end is None and owned.sought == pending.sought
        if is_wanted and not pending.work.done():
            return None
        owned.pending = None
        pending.work.cancel()
        if not is_wanted:
            return None
        try:
            return pending.batch if pending.work.result() else None
        except BaseException:
            self._fetcher.seek(owned.partition, pending.batch.first_offset)  # not handed out
            raise


def _means_topic_deleted(error: TopicRecreatedError | GaveUpError | KafkaError) -> bool:
    return isinstance(error, TopicRecreatedError) or error.code in UNKNOWN_TOPIC


async def _fetched(fetcher: Fetcher, owned: OwnedPartition, seconds: float) -> Batch | None:
    """The next batch; None if there is none yet, or the partition begins to end."""
    ready = await fetcher.next(owned.partition, max_wait_ms=0)
    if ready is not None or owned.ending.end is not None or seconds == 0:
        return ready if owned.ending.end is None else None
    waiting = fetcher.wait(owned.partition, max_wait_ms=seconds * 1_000)
    if not await _unless_ending(owned, asyncio.ensure_future(waiting)):
        return None
    # Does not wait: a batch that was taken must be handed out.
    return await fetcher.next(owned.partition, max_wait_ms=0)


def _pending(owned: OwnedPartition, batch: Batch, deserializers: Deserializers) -> PendingBatch:
    async def work() -> bool:
        try:
            return await _unless_ending(
                owned, asyncio.ensure_future(deserialize(batch, deserializers))
            )
        finally:
            if owned.pending is not None and owned.pending.batch is batch:
                owned.busy_since = None

    task = asyncio.get_running_loop().create_task(work(), name=f"deserializes {owned.partition}")
    return PendingBatch(batch, owned.sought, task)


async def _unless_ending(
    owned: OwnedPartition, work: "asyncio.Future[Any] | None", seconds: float | None = None
) -> bool:
    """Whether `work` is done; it is cancelled if the partition begins to end, which ends the wait.

    Raises the error of `work`.
    """
    began = asyncio.ensure_future(owned.ending.began.wait())
    waiting = (began,) if work is None else (began, work)
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work is None or not work.done() or owned.ending.end is not None:
            return False
        work.result()
        return True
    finally:
        began.cancel()
        if work is not None:
            work.cancel()
            if work.done():
                with suppress(asyncio.CancelledError):
                    work.exception()  # mark it as read
