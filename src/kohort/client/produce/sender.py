"""Sends the batches that are due; `DeliveryResults` handles the responses.

One task checks all partitions with batches whenever something may have changed, and starts
requests. A request has one batch of each partition of a connection that is due. Several requests
may be in flight on a connection (Kafka's Sender).
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import DeliveryTimeoutError, GaveUpError, is_retriable
from kohort.client.produce.batch import ProduceBatch
from kohort.client.produce.buffer_pool import BufferPool
from kohort.client.produce.counters import ProduceCounters
from kohort.client.produce.delivery import NO_OFFSET
from kohort.client.produce.delivery_results import DeliveryResults
from kohort.client.produce.identity import ProducerIdentity
from kohort.client.produce.losses import undelivered
from kohort.client.produce.partition import NEVER, ProducePartition
from kohort.client.produce.request import ZSTD_SINCE, produce_request
from kohort.errors import ErrorCode, KohortError
from kohort.protocol.compression import Codec
from kohort.types import TopicPartition

log: Final = logging.getLogger("kohort.client.producer")

_MIN_RESPONSE_TIMEOUT_MS: Final = 1_000

Route: TypeAlias = tuple[int, str]
"""A connection: node id of the broker, and purpose."""


class Sender:
    """Sends batches.

    There are as many connections to a broker as `purposes`; each has its own share of the
    partitions. Batches do not linger while callers wait for memory of `buffer_pool`.
    `on_settled` is called with each finished batch, also one that was split in two.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        ids: ProducerIdentity,
        purposes: Sequence[str],
        counters: ProduceCounters,
        buffer_pool: BufferPool,
        on_settled: Callable[[ProduceBatch], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._ids = ids
        self._purposes = purposes
        self._counters = counters
        self._buffer_pool = buffer_pool
        self._results = DeliveryResults(cluster, config, ids, counters, on_settled)
        self._active: dict[ProducePartition, None] = {}
        self._wake = asyncio.Event()
        self._requests: defaultdict[Route, int] = defaultdict(int)  # on their way
        self._tasks: set[asyncio.Task[Any]] = set()
        self._locating: set[TopicPartition] = set()
        self._acquiring = False
        self._admitting = False
        self._is_closing = False
        self.failure: BaseException | None = None
        """Internal error of the client, after which nothing is sent."""
        self._task = self._start(self._run())

    def add(self, partition: ProducePartition) -> None:
        """The partition has batches to send."""
        self._active[partition] = None

    def wake(self) -> None:
        """A batch may have become due."""
        self._wake.set()

    async def close(self) -> None:
        """End at once; unsettled batches fail."""
        self._is_closing = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in self._unsettled():
            text = f"{batch.tp}: the producer was closed before its end"
            self._results.give_up(batch, DeliveryTimeoutError(batch.tp, text))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            next_due = self._step(loop.time())
            try:
                async with asyncio.timeout_at(None if next_due == NEVER else next_due):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _step(self, now: float) -> float:
        """Start the requests that are due; returns when the next one will be."""
        if (failure := self._ids.failure) is not None:
            self._refuse(tuple(self._active), failure)
        producer = self._ids.current
        if producer is None:
            if self._active and not self._acquiring:
                self._acquiring = True
                self._start(self._acquire())
            return self._expire(now)
        next_due = self._expire(now)
        by_route: defaultdict[Route, list[ProducePartition]] = defaultdict(list)
        to_admit = []
        for partition in tuple(self._active):
            due_at = self._due(partition)
            if due_at > now:
                next_due = min(next_due, due_at)
                continue
            if not self._ids.may_send(partition.tp):
                to_admit.append(partition)
                continue
            leader = self._cluster.cached_leader(partition.tp)
            if leader is None:
                self._locate(partition.tp)
                continue
            route = leader.node_id, self._purposes[partition.tp.partition % len(self._purposes)]
            if self._requests[route] < self._config.max_in_flight_requests_per_connection:
                by_route[route].append(partition)
        if to_admit and not self._admitting:
            self._admitting = True
            self._start(self._admit(to_admit))
        for route, partitions in by_route.items():
            next_due = min(next_due, self._send_ready(route, partitions, now))
        return next_due

    def _due(self, partition: ProducePartition) -> float:
        skip_linger = self._buffer_pool.waiting > 0
        return partition.due(self._config.linger_s, skip_linger=skip_linger)

    def _send_ready(
        self, route: Route, partitions: Sequence[ProducePartition], now: float
    ) -> float:
        """Start one request; `wake` if the broker has more to get."""
        producer = self._ids.current
        assert producer is not None
        batches, size = [], 0
        for partition in partitions:
            if size and size + partition.waiting[0].size > self._config.max_request_size:
                self.wake()
                break
            batch = partition.next_batch(producer)
            if batch is not None:
                batches.append((partition, batch))
                if batch.attempts == 1:
                    self._counters.queue_time.observe(now - batch.created)
                self._active[partition] = self._active.pop(partition)  # last in the next request
                size += batch.sent_size
            # Their next batches are sent in another request.
            if self._due(partition) <= now:
                self.wake()
        if batches:
            self._ids.sending()
            self._requests[route] += 1
            self._start(self._request(route, batches))
        return NEVER

    def _expire(self, now: float) -> float:
        """Give up batches that have waited too long; returns when the next one will have."""
        timeout = self._config.delivery_timeout_s
        earliest = NEVER
        for partition in tuple(self._active):
            for batch in partition.expired(now, timeout):
                self._results.give_up(batch, self._results.timed_out(batch))
            if partition.is_idle:
                del self._active[partition]
            elif partition.waiting:
                earliest = min(earliest, partition.waiting[0].created + timeout)
        return earliest

    # Requests

    async def _request(
        self, route: Route, batches: Sequence[tuple[ProducePartition, ProduceBatch]]
    ) -> None:
        node_id, _ = route
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            responses = await self._exchange(route, [batch for _, batch in batches])
        except Exception as error:
            if isinstance(error, KohortError):
                self._cluster.stale(*{batch.tp.topic for _, batch in batches})
            else:  # a fault of the client: the deliveries raise it
                log.exception("internal error in a request to broker %s", node_id)
            for partition, batch in batches:
                self._results.failed(partition, batch, error)
        else:
            self._counters.requests.observe(loop.time() - started)
            for partition, batch in batches:
                self._results.handle_response(partition, batch, responses.get(batch.tp))
        finally:
            self._requests[route] -= 1
            self.wake()

    async def _exchange(
        self, route: Route, batches: Sequence[ProduceBatch]
    ) -> dict[TopicPartition, Any]:
        connection = await self._cluster.connection(*route)
        min_version, max_version = self._ids.versions
        min_version = (
            max(ZSTD_SINCE, min_version) if self._config.codec is Codec.ZSTD else min_version
        )
        encoding = connection.wire_for("produce", min_version, max_version)
        acks = self._config.required_acks
        body = produce_request(
            encoding.version,
            self._ids.transactional_id,
            acks,
            self._cluster.config.request_timeout_ms,
            batches,
        )
        frame = await connection.submit(
            encoding, *body, timeout_ms=self._response_timeout_ms(batches), await_response=acks != 0
        )
        if not acks:
            return {batch.tp: _NO_ACK_RESPONSE for batch in batches}
        response = connection.decode(encoding, frame)
        return {
            TopicPartition(topic.name, partition.index): partition
            for topic in response.responses
            for partition in topic.partition_responses
        }

    def _response_timeout_ms(self, batches: Sequence[ProduceBatch]) -> int:
        """How long to wait for the response: until the first batch is given up."""
        age_s = asyncio.get_running_loop().time() - min(batch.created for batch in batches)
        left_ms = round((self._config.delivery_timeout_s - age_s) * 1_000)
        # Not too briefly: a request that times out takes its connection with it.
        left_ms = max(left_ms, _MIN_RESPONSE_TIMEOUT_MS)
        return min(left_ms, self._cluster.config.request_timeout_ms)

    # Preparation of requests

    def _locate(self, tp: TopicPartition) -> None:
        if tp not in self._locating:
            self._locating.add(tp)
            self._start(self._find_leader(tp))

    async def _find_leader(self, tp: TopicPartition) -> None:
        try:
            await self._cluster.leader(tp)
        except Exception as error:
            self._preparation_failed(
                [partition for partition in tuple(self._active) if partition.tp == tp], error
            )
        finally:
            self._locating.discard(tp)
            self.wake()

    async def _acquire(self) -> None:
        try:
            await self._ids.acquire()
        except Exception as error:
            self._preparation_failed(tuple(self._active), error)
        finally:
            self._acquiring = False
            self.wake()

    async def _admit(self, partitions: Sequence[ProducePartition]) -> None:
        try:
            await self._ids.admit([partition.tp for partition in partitions])
        except Exception as error:
            self._preparation_failed(partitions, error)
        finally:
            self._admitting = False
            self.wake()

    def _preparation_failed(self, partitions: Iterable[ProducePartition], error: Exception) -> None:
        """Handle the error of a prerequisite: leader, producer id, place in the transaction.

        Batches fail at once; after a retriable error when they time out.
        """
        if isinstance(error, GaveUpError) or is_retriable(error):
            for partition in partitions:
                for batch in partition.waiting:
                    batch.last_error = error
        else:
            self._refuse(partitions, error)

    def _refuse(self, partitions: Iterable[ProducePartition], error: Exception) -> None:
        """Give up the batches that wait."""
        for partition in partitions:
            for batch in partition.expired(NEVER, 0.0):
                self._results.give_up(batch, error)

    def _start(self, coroutine: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(error)
        elif task is self._task and self.failure is None and not self._is_closing:
            self._fail_unsent()

    def _fail_unsent(self) -> None:
        """Fail all batches: the event loop ended, and cancelled all tasks, before `close`."""
        self.failure = KohortError("the event loop ended before the producer was closed")
        batches = self._unsettled()
        for batch in batches:
            self._results.give_up(batch, KohortError(f"{batch.tp}: {self.failure}"))
        if (lost := undelivered(batches)) is not None:
            log.error("%s", lost)

    def _die(self, error: BaseException) -> None:
        """End by an internal error: fail all batches that will not be sent any more."""
        log.error("internal error, stopping the producer", exc_info=error)
        self.failure = error
        for task in self._tasks:
            task.cancel()
        for batch in self._unsettled():
            failed = KohortError(f"{batch.tp}: the producer failed: {error!r}")
            failed.__cause__ = error
            self._results.give_up(batch, failed)

    def _unsettled(self) -> list[ProduceBatch]:
        return [
            batch
            for partition in self._active
            for batch in partition.unsettled
            if not batch.outcome.is_settled
        ]


class _NoAckResponse:
    """The result of a batch for which no acknowledgement was requested."""

    error_code = ErrorCode.none
    base_offset = NO_OFFSET
    log_append_time = None


_NO_ACK_RESPONSE: Final = _NoAckResponse()
