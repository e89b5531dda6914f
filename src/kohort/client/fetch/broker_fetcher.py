"""Fetches from one broker for one `Fetcher`: one request at a time, for all fetchable partitions.

A request waits at the broker for `fetch_max_wait_ms` if there are no records, and its connection is
busy meanwhile. A partition that becomes fetchable then would wait for half a second. So each
broker has two fetchers, each with its own connection and session. The second one is idle while the
first has all partitions in flight, and fetches partitions that become fetchable meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kohort.client.cluster import Cluster
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER, OffsetOutOfRangeError
from kohort.client.fetch.batch import Batch, scan
from kohort.client.fetch.counters import FetchCounters
from kohort.client.fetch.partition import FetchPartition
from kohort.client.fetch.position_resolver import PositionResolver
from kohort.client.fetch.request import FetchSettings, fetch
from kohort.client.fetch.response import NO_REPLICA, FetchResponse, PartitionResponse, error_code
from kohort.client.fetch.session import (
    FetchSessionHandler,
    RequestedPartition,
    is_session_lost,
    topics_of,
)
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError, KohortError

log: Final = logging.getLogger(__name__)

CONNECTIONS_PER_BROKER: Final = 2
CLOSE_GRACE_S: Final = 0.1
"""Time limit for closing the fetch session; without a close the broker drops it later."""


class BrokerFetcher:
    """A connection and a fetch session with one broker, and the task that uses them.

    `select_partitions` returns the partitions to fetch next; each is in flight until its response
    is handled. `wake` is set when there may be some. `on_failure` is called if the task ends before
    `close`.
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        *,
        purpose: str,
        settings: FetchSettings,
        wake: asyncio.Event,
        select_partitions: Callable[[int], list[FetchPartition]],
        resolver: PositionResolver,
        counters: FetchCounters,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._purpose = purpose
        self._settings = settings
        self._timeout_ms = cluster.config.request_timeout_ms + settings.max_wait_ms
        self._wake = wake
        self._select_partitions = select_partitions
        self._resolver = resolver
        self._counters = counters
        self._session = FetchSessionHandler()
        # Pauses after immediate responses without data: a broker that keeps sending them must not
        # keep the client busy.
        self._idle = cluster.backoff(5, 200)
        self._connection: Connection | None = None
        self._on_failure = on_failure
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"fetches from broker {node_id}"
        )
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the task, and the session at the broker unless a request is in flight there."""
        self._closed = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        connection, final = self._connection, self._session.final()
        if connection is None or connection.closed or connection.in_flight or final is None:
            return
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await fetch(
                    connection, final, self._settings, by_id=True, timeout_ms=self._timeout_ms
                )
        except (TimeoutError, KohortError):
            pass

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._closed:
            cancelled = asyncio.CancelledError("the task was cancelled")
            self._on_failure(cancelled if task.cancelled() else task.exception() or cancelled)

    async def _run(self) -> None:
        while True:
            in_flight = {
                partition: partition.begin_fetch()
                for partition in self._select_partitions(self._node_id)
            }
            if not in_flight:
                await self._wake.wait()
                self._wake.clear()
                continue
            pause_s = 0.0
            try:
                pause_s = await self._fetch(in_flight)
            except Exception as fault:  # a fault of the client: `pop_batch` raises it
                log.exception("internal error while fetching from broker %s", self._node_id)
                self._session.handle_error()
                for partition, revision in in_flight.items():
                    if revision == partition.revision:
                        partition.fail(fault)
            finally:
                for partition, revision in in_flight.items():
                    partition.end_fetch(revision)
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _fetch(self, in_flight: Mapping[FetchPartition, int]) -> float:
        """Send one request and handle its response; returns the pause before the next, in
        seconds."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        max_bytes = self._settings.partition_bytes
        requested = {
            partition: (revision, partition.requested(max_bytes))
            for partition, revision in in_flight.items()
        }
        try:
            response = await self._send(
                {partition.tp: entry for partition, (_, entry) in requested.items()}
            )
        except KohortError as error:
            self._session.handle_error()
            self._cluster.stale(*topics_of(partition.tp for partition in in_flight))
            for partition, revision in in_flight.items():
                if revision == partition.revision:
                    self._resolver.failed(partition, error)
            return 0
        self._counters.requests.observe(loop.time() - started)
        if response.error:
            return self._handle_top_level_error(in_flight, response.error)
        has_data = self._handle(requested, response)
        if has_data or loop.time() - started > self._settings.max_wait_ms / 2000:
            self._idle.reset()
            return 0
        return self._idle.next_s()

    async def _send(self, entries: dict[Any, RequestedPartition]) -> FetchResponse:
        request = self._session.request(entries)
        self._connection = connection = await self._cluster.connection(self._node_id, self._purpose)
        response = await fetch(
            connection,
            request,
            self._settings,
            by_id=all(entry.topic_id for entry in entries.values()),
            timeout_ms=self._timeout_ms,
        )
        self._session.handle_response(response.error, response.session_id)
        return response

    def _handle_top_level_error(self, in_flight: Iterable[FetchPartition], code: int) -> float:
        """Handle the top-level error code of a response; returns the pause in seconds."""
        error = KafkaError(error_code(code), f"fetching from broker {self._node_id}")
        if is_session_lost(code):
            return self._idle.after(error, "the fetch session")
        for partition in in_flight:
            self._resolver.failed(partition, error)
        return self._idle.next_s()

    def _handle(
        self,
        requested: dict[FetchPartition, tuple[int, RequestedPartition]],
        response: FetchResponse,
    ) -> bool:
        """Handle all partitions of a response; returns whether it has data."""
        by_key: dict[Any, FetchPartition] = {}
        for partition, (_, entry) in requested.items():
            by_key[entry.topic_id, partition.tp.partition] = by_key[partition.tp] = partition
        has_data = False
        for response_partition in response.partitions:
            fetched = by_key.pop((response_partition.topic, response_partition.partition), None)
            if fetched is None or fetched.revision != requested[fetched][0]:
                continue
            has_data |= self._handle_partition(fetched, response_partition)
        for partition, (revision, _) in requested.items():
            if revision == partition.revision:
                partition.attempt_succeeded()
        return has_data

    def _handle_partition(self, partition: FetchPartition, response: PartitionResponse) -> bool:
        if response.error:
            self._handle_error(partition, response)
            return True
        partition.update_watermarks(response)
        if response.diverging is not None:
            self._resolver.truncated(partition, response.diverging[1])
            return True
        if response.preferred_replica not in (NO_REPLICA, self._node_id):
            self._resolver.read_from(partition, response.preferred_replica)
            return True
        if partition.reads_replica and partition.is_replica_due(asyncio.get_running_loop().time()):
            self._resolver.read_from(partition, None)
        return bool(response.records) and self._handle_records(partition, response)

    def _handle_records(self, partition: FetchPartition, response: PartitionResponse) -> bool:
        from_offset = partition.fetch_offset
        try:
            scanned = scan(
                partition.tp, response.records, from_offset, check_crcs=self._settings.check_crcs
            )
        except KafkaError as error:
            partition.fail(error)
            return True
        if scanned.next_offset == from_offset:
            return False
        batch = Batch(
            partition.tp,
            response.records[: scanned.size],
            from_offset,
            scanned.next_offset,
            leader_epoch=scanned.leader_epoch,
            high_watermark=response.high_watermark,
            last_stable_offset=response.last_stable_offset,
            log_start_offset=response.log_start_offset,
            aborted=response.aborted,
            record_count=scanned.record_count,
        )
        self._counters.received(batch)
        partition.put(batch)
        return True

    def _handle_error(self, partition: FetchPartition, response: PartitionResponse) -> None:
        code = error_code(response.error)
        if code in WRONG_LEADER or code in UNKNOWN_TOPIC or code is ErrorCode.offset_out_of_range:
            # A recreated topic also responds OFFSET_OUT_OF_RANGE.
            self._cluster.stale(partition.tp.topic)
        error = KafkaError(code, f"fetching {partition.tp} at offset {partition.fetch_offset}")
        if partition.reads_replica:
            # A follower may lag behind or have been removed: the leader may have no such error.
            message = (
                f"broker {self._node_id} is the preferred read replica of {partition.tp}: {error}"
            )
            self._resolver.failed(partition, KafkaError(ErrorCode.replica_not_available, message))
            return
        if code is ErrorCode.offset_out_of_range:
            start = response.log_start_offset
            self._resolver.out_of_range(
                partition, OffsetOutOfRangeError(partition.tp, partition.fetch_offset, start)
            )
        elif code is ErrorCode.corrupt_message:
            partition.fail(error)
        else:
            self._resolver.failed(partition, error)
