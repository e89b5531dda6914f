"""`Producer` for programs without an event loop.

    with Producer(bootstrap="localhost:9092") as producer:
        metadata = producer.send_and_wait("orders", b"value")     # in the log
        delivery = producer.send("orders", b"value")              # queued
        metadata = delivery.result()

Several threads may use it; records of one thread keep their order. Records are gathered in the
callers' threads, and the loop takes many at a time: a change of threads for each would cost ten
times as much as the record.
"""

import asyncio
import atexit
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, Unpack

from kohort.client.concurrency import BackgroundLoop, background_loop, run_here
from kohort.client.config import ClientConfig, ProducerConfig, ProducerOptions
from kohort.client.errors import BufferFullError, TransactionAbortedError, UndeliveredError
from kohort.client.group_metadata import OffsetOwner, Offsets
from kohort.client.method_names import PRODUCER, MethodHints
from kohort.client.metrics import ProducerMetrics
from kohort.client.produce import Delivery as AsyncDelivery
from kohort.client.produce import (
    Headers,
    RecordMetadata,
    RecordOptions,
    as_bytes,
    as_headers,
    as_partition,
    as_timestamp,
)
from kohort.client.produce import Producer as AsyncProducer
from kohort.client.produce import Transaction as AsyncTransaction
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.serialization import K_in, Serializer, V_in, serializers
from kohort.client.transaction_outcome import TransactionOutcome
from kohort.errors import KohortError, fresh
from kohort.protocol.records import Header

log: Final = logging.getLogger("kohort.client.producer")

_GATHERED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records that may wait for the loop; `send` waits beyond."""
_OVERHEAD: Final = 200


class Delivery:
    """The outcome of one record."""

    __slots__ = ("_accepted", "_change", "_loop", "is_heard", "refusal")

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._accepted: AsyncDelivery | None = None
        self._change: asyncio.Event | None = None
        """Set when the producer took or refused the record, if that is waited for."""
        self.refusal: Exception | None = None
        """The error with which the producer refused the record."""
        self.is_heard = False
        """Whether a caller got that error."""

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the place of the record in the log.

        Raises the error of its delivery, and TimeoutError after `timeout_s`. An interrupt has the
        error as its cause if it was known by then.
        """
        return self._loop.run_to_its_end(self._wait(timeout_s))

    def done(self) -> bool:
        """Whether the outcome is known."""
        if self._accepted is not None:
            return self._accepted.done()
        return self.refusal is not None

    # On the loop

    def accept(self, accepted: AsyncDelivery) -> None:
        """The producer took the record."""
        self._accepted = accepted
        if self._change is not None:
            self._change.set()

    def refuse(self, error: Exception) -> None:
        """The producer did not take the record."""
        self.refusal = error
        if self._change is not None:
            self._change.set()

    async def queued_or_refused(self) -> None:
        """Wait until the producer took or refused the record."""
        if self._accepted is None and self.refusal is None:
            if self._change is None:
                self._change = asyncio.Event()
            await self._change.wait()

    async def raise_refusal(self) -> None:
        """Wait until the producer took the record. Raises the error with which it refused it."""
        await self.queued_or_refused()
        if self.refusal is not None:
            self.is_heard = True
            raise fresh(self.refusal)

    async def _wait(self, timeout_s: float | None) -> RecordMetadata:
        async with asyncio.timeout(timeout_s):
            await self.raise_refusal()
            assert self._accepted is not None
            return await self._accepted


class _Gathered(NamedTuple):
    """One record on its way to the loop."""

    delivery: Delivery
    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    partition: int | None
    timestamp: int

    @property
    def size(self) -> int:
        return _OVERHEAD + len(self.value or b"") + len(self.key or b"")


@shows_options(ProducerConfig, ClientConfig)
@checks_arguments
class Producer(MethodHints, Generic[K_in, V_in]):
    """A producer; `close`, or leaving its block, ends it."""

    _OTHER_NAMES = PRODUCER

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        key_serializer: Serializer[K_in] | None = None,
        value_serializer: Serializer[V_in] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """The options are those of `kohort.client.Producer`. Raises ConfigError.

        Serializers run in the thread that sends.
        """
        self._serializers = serializers(key_serializer, value_serializer)
        self._loop = background_loop()
        self._producer = AsyncProducer(config, **options)
        self._gathered: deque[_Gathered] = deque()
        self._size = 0
        """Approximate size of the gathered records in bytes: threads add to it without a lock."""
        self._is_woken = False
        """Whether the loop takes the gathered records, or is scheduled to."""
        self._taking: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        """Set when the loop has taken records, or takes no more; for `send`, which waits for it."""
        self._last: Delivery | None = None
        """Of the last record that the loop took."""
        self._known_topics: set[str] = set()
        """Topics that were there: a mistyped one must not hold up the records of others."""
        self._refused: list[Delivery] = []
        self._closed = False
        """Whether `send` refuses records."""
        self._ended = False
        """Whether all connections are closed, too."""
        _open.add(self)

    def __enter__(self) -> Self:
        """A transactional producer fences others with its `transactional_id` here."""
        try:
            self._loop.run_to_its_end(self._producer.__aenter__())
        except BaseException:  # an interrupt may come when it has begun
            self._closed = True
            self._drop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the exception in flight is the cause
            log.exception("records were lost when the producer was closed by another exception")

    def send(
        self,
        topic: str,
        value: V_in | None,
        *,
        key: K_in | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record (`timestamp` in ms, default: now); its delivery has the outcome.

        Arguments may change after the return. Raises SerializationError, TypeError and ValueError
        for invalid arguments, KafkaError or GaveUpError if the topic does not exist,
        BufferFullError if earlier records leave no room within `max_block_ms`, KohortError after
        `close`. The delivery raises all other errors.
        """
        self._loop.validate_process()  # after a fork no loop takes the record
        if topic not in self._known_topics:
            self._loop.run(self._producer.partitions_for(topic))
            self._known_topics.add(topic)
        content: Any = value
        name: Any = key
        if self._serializers is not None:
            headers = header_list = list(as_headers(headers))
            name, content = run_here(
                self._serializers.serialize(topic, name, content, header_list, self._loop.wait)
            )
        delivery = Delivery(self._loop)
        record = _Gathered(
            delivery,
            topic,
            None if content is None else as_bytes("value", content),
            None if name is None else as_bytes("key", name),
            as_headers(headers) if headers else (),
            None if partition is None else as_partition(partition),
            time.time_ns() // 1_000_000 if timestamp is None else as_timestamp(timestamp),
        )
        if not self._has_room():
            self._loop.run(self._wait_for_room(topic))
        if self._closed:
            raise KohortError(f"{topic}: the producer is closed, and sends no more records")
        self._gathered.append(record)
        self._size += record.size
        self._wake()
        if self._closed:  # by another thread meanwhile, which perhaps took the record
            self._loop.run(delivery.raise_refusal())
        return delivery

    # An interrupt may come between any two instructions of the caller's thread, which therefore
    # takes no lock: a lock that stays locked would hold up the loop. A deque needs none.

    def _has_room(self) -> bool:
        return self._size < _GATHERED_BYTES or not self._gathered

    def _wake(self) -> None:
        """Have the loop take the gathered records."""
        if not self._is_woken:
            try:
                self._is_woken = True  # before the loop sets it back
                self._loop.loop.call_soon_threadsafe(self._begin_taking)
            except BaseException:  # interrupted
                self._is_woken = False
                raise

    async def _wait_for_room(self, topic: str) -> None:
        limit_s = self._producer.config.max_block_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                while not (self._closed or self._has_room()):
                    self._begin_taking()
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferFullError(
                f"{topic}: the records sent before were not taken within {limit_s:g} s, as "
                "buffer_memory is full; send more slowly, or raise buffer_memory or max_block_ms"
            ) from None

    def send_and_wait(
        self,
        topic: str,
        value: V_in | None,
        **options: Unpack[RecordOptions[K_in]],
    ) -> RecordMetadata:
        """Send a record, and return when it is in the log. Raises as `send`, and its delivery."""
        return self.send(topic, value, **options).result()

    def transaction(self) -> "Transaction":
        """A transaction, as a scope: `with producer.transaction() as transaction`.

        Records of all threads that are sent meanwhile belong to it. One is open at a time. Raises
        KohortError for a producer without `transactional_id`.
        """
        return Transaction(self, self._loop)

    async def queued(self) -> None:
        """Wait until all sent records are queued; on the loop. Raises errors of refused records."""
        await self._wait_until_queued()
        if (refused := self._with_refusals(None)) is not None:
            raise fresh(refused)

    async def new_transaction(self) -> AsyncTransaction:
        """A new transaction, without records sent so far; on the loop."""
        await self._wait_until_queued()
        return self._producer.transaction()

    async def end(self, transaction: AsyncTransaction, error: BaseException | None) -> None:
        """Commit, or abort because of `error` or of records that were refused; on the loop."""
        try:
            await self._wait_until_queued()
        except asyncio.CancelledError as cancelled:
            await transaction.__aexit__(type(cancelled), cancelled, None)
            await self._wait_until_queued()
            self._with_refusals(None)  # they were refused because of the abort
            raise
        refused = self._with_refusals(None)
        reason = error or refused
        await transaction.__aexit__(None if reason is None else type(reason), reason, None)
        if error is None and refused is not None:
            raise TransactionAbortedError(
                f"the transaction was aborted, nothing of it counts: {refused}"
            ) from refused

    def metrics(self) -> ProducerMetrics:
        """Counters since the start, and gauges of this moment; from any thread.

        Records on their way to the event loop are not counted as queued yet.
        """
        return self._producer.metrics()

    def flush(self) -> None:
        """Send all records that were queued by now, and wait until they are settled.

        Raises UndeliveredError with the errors of records whose delivery was not awaited. If an
        interrupt ends the wait, the error is its cause if it was known by then.
        """
        self._loop.run_to_its_end(self._after_queued(self._producer.flush))

    def close(self) -> None:
        """`flush` and close; aborts an open transaction. Idempotent. Raises as `flush`.

        An interrupt closes at once, and logs the undelivered records.
        """
        self._loop.validate_process()
        if self._ended:
            return
        try:
            self._loop.run_to_its_end(self._close())
        finally:
            if (lost := self._drop()) is not None:
                log.error("%s", lost)

    def end_with_the_process(self) -> None:
        """Drop undelivered records of a producer that was not closed, and log them."""
        if self._loop.is_of_this_process and not self._ended:
            self._closed = True
            if (lost := self._drop()) is not None:
                log.error("the producer was not closed before the process exited: %s", lost)

    def _drop(self) -> UndeliveredError | None:
        """End at once; undelivered records are lost."""
        lost = self._loop.run_to_its_end(self._close_at_once())
        self._ended = True
        _open.discard(self)
        return lost

    async def _close(self) -> None:
        self._closed = True
        self._room.set()
        await self._after_queued(self._producer.close)

    async def _close_at_once(self) -> UndeliveredError | None:
        lost = None
        try:
            await self._producer.close(timeout_ms=0)
        except UndeliveredError as error:
            lost = error.with_traceback(None)  # which refers to this frame
        await self._wait_until_queued()
        return self._with_refusals(lost)

    def _begin_taking(self) -> None:
        """Start passing on the gathered records; on the loop."""
        if self._taking is None or self._taking.done():
            self._taking = self._loop.loop.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        """Pass all gathered records to the producer, in order."""
        while True:
            self._is_woken = True
            records = self._ungathered()
            if records:
                self._last = records[-1].delivery
                for record in records:
                    await self._queue(record)
                continue
            self._is_woken = False
            if not self._gathered:  # from now on a thread that gathers a record wakes the loop
                return

    def _ungathered(self) -> list[_Gathered]:
        """Remove and return the gathered records; threads may add others meanwhile."""
        self._size = 0
        records = [self._gathered.popleft() for _ in range(len(self._gathered))]
        self._room.set()
        return records

    async def _queue(self, record: _Gathered) -> None:
        delivery, topic, value, key, headers, partition, timestamp = record
        try:
            accepted = await self._producer.send(
                topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp
            )
        except Exception as error:
            delivery.refuse(error)
            self._refused.append(delivery)
        else:
            delivery.accept(accepted)

    async def _after_queued(self, end: Callable[[], Awaitable[None]]) -> None:
        """Call `end` once all is queued. Raises its UndeliveredError with the refused records."""
        await self._wait_until_queued()
        lost = None
        try:
            await end()
        except UndeliveredError as error:
            lost = error.with_traceback(None)  # which refers to this frame
        losses = self._with_refusals(lost)
        if losses is not None:
            raise fresh(losses)

    async def _wait_until_queued(self) -> None:
        """Wait until the producer has queued or refused all records gathered so far."""
        last = self._gathered[-1].delivery if self._gathered else self._last
        self._begin_taking()
        if last is not None:
            await last.queued_or_refused()

    def _with_refusals(self, lost: UndeliveredError | None) -> UndeliveredError | None:
        """The error that names also the records that the producer did not take."""
        refused, self._refused = self._refused, []
        errors = [delivery.refusal for delivery in refused if not delivery.is_heard]
        refusals = [error for error in errors if isinstance(error, Exception)]
        if not refusals:
            return lost
        text = f"{len(refusals)} records were refused; first error: {refusals[0]}"
        if lost is None:
            return UndeliveredError(text, refusals)
        return UndeliveredError(f"{lost.message}; {text}", [*lost.exceptions, *refusals])


class Transaction:
    """A transaction. Leaving its scope commits; an exception inside it aborts, and is raised on."""

    def __init__(self, producer: Producer[Any, Any], loop: BackgroundLoop) -> None:
        self._producer = producer
        self._loop = loop
        self._transaction: AsyncTransaction | None = None

    def __enter__(self) -> Self:
        """Begin. Raises as the transactions of `kohort.client.Producer`."""
        try:
            self._loop.run_to_its_end(self._begin())
        except BaseException as error:
            self._abort_for(error)  # an interrupt may come when it has begun
            raise
        return self

    async def _begin(self) -> None:
        self._transaction = await self._producer.new_transaction()
        await self._transaction.__aenter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._loop.run_to_its_end(self._producer.end(self._begun(), error))
        except BaseException as failed:
            if self.outcome is None:  # interrupted before the end began
                self._abort_for(failed)
            raise

    @property
    def outcome(self) -> TransactionOutcome | None:
        """As `kohort.client.Transaction.outcome`; from any thread.

        An interrupt (KeyboardInterrupt) while the commit is under way is raised when it is known,
        within `max_block_ms`; a second one at once.
        """
        return None if self._transaction is None else self._transaction.outcome

    def commit_offsets(self, offsets: Offsets, owner: OffsetOwner) -> None:
        """Commit the offsets of the next records to read with the transaction, or not at all.

        `owner` is `ConsumerGroup.generation`, which fences members that lost the partitions, the
        `Consumer` that read them, or GroupMetadata. Raises GenerationEndedError,
        TransactionAbortedError, ProducerFencedError.
        """
        self._loop.run(self._begun().commit_offsets(offsets, owner))

    def commit(self) -> None:
        """Commit now. Raises as `kohort.client.Transaction.commit`, and may be repeated as it."""
        self._loop.run_to_its_end(self._commit())

    def abort(self) -> None:
        """Abort now; the scope then only has to be left."""
        self._loop.run_to_its_end(self._begun().abort())

    async def _commit(self) -> None:
        await self._producer.queued()
        await self._begun().commit()

    def _abort_for(self, error: BaseException) -> None:
        """Abort because of `error`, if it is open."""
        if self._transaction is not None:
            self._loop.run_to_its_end(self._transaction.__aexit__(type(error), error, None))

    def _begun(self) -> AsyncTransaction:
        if self._transaction is None:
            raise KohortError("the transaction has not begun: with producer.transaction() as …")
        return self._transaction


_open: Final[set[Producer[Any, Any]]] = set()


@atexit.register
def _end_with_the_process() -> None:
    """Log records that are lost when the process ends before its producers were closed."""
    for producer in tuple(_open):
        producer.end_with_the_process()
