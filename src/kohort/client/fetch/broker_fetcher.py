"""Fetches from one broker for one `Fetcher`: one request at a time, for all partitions wanted then.

A request waits at the broker for `fetch_max_wait_ms` if there are no records, and its connection is
busy meanwhile. A partition that is added, resumed or taken from just then would wait for half a
second. So each broker has two fetchers, each with its own connection and session. The second one is
idle while the first has all partitions in flight, and fetches those that become ready meanwhile.
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
from kohort.client.fetch.response import (
    NO_REPLICA,
    FetchResponse,
    PartitionResponse,
    error_code,
)
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
"""Time limit for closing the fetch session; the broker drops it later by itself."""


class BrokerFetcher:
    """A connection and a fetch session with one broker, and the task that uses them.

    `wanted` gives the partitions to fetch next; each is in flight until its response was handled.
    `wake` is set when there may be some. `on_died` is called if the task ends before `close`.
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        *,
        purpose: str,
        settings: FetchSettings,
        wake: asyncio.Event,
        wanted: Callable[[int], list[FetchPartition]],
        resolver: PositionResolver,
        counters: FetchCounters,
        on_died: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._purpose = purpose
        self._settings = settings
        self._timeout_ms = cluster.config.request_timeout_ms + settings.max_wait_ms
        self._wake = wake
        self._wanted = wanted
        self._resolver = resolver
        self._counters = counters
        self._session = FetchSessionHandler()
        # Pauses after responses that come at once and bring nothing: a broker that keeps sending
        # them must not keep the client busy.
        self._idle = cluster.backoff(5, 200)
        self._connection: Connection | None = None
        self._on_died = on_died
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
            cancelled = asyncio.CancelledError("somebody cancelled the task")
            self._on_died(cancelled if task.cancelled() else task.exception() or cancelled)

    async def _run(self) -> None:
        while True:
            in_flight = {each: each.begin_fetch() for each in self._wanted(self._node_id)}
            if not in_flight:
                await self._wake.wait()
                self._wake.clear()
                continue
            pause_s = 0.0
            try:
                pause_s = await self._fetch(in_flight)
            except Exception as fault:  # a fault of the client: `take` raises it
                log.exception("fetching from broker %s", self._node_id)
                self._session.handle_error()
                for each, revision in in_flight.items():
                    if revision == each.revision:
                        each.fail(fault)
            finally:
                for each, revision in in_flight.items():
                    each.end_fetch(revision)
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _fetch(self, in_flight: Mapping[FetchPartition, int]) -> float:
        """Send one request and handle its response; seconds to pause before the next."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        max_bytes = self._settings.partition_bytes
        asked = {
            each: (revision, each.requested(max_bytes)) for each, revision in in_flight.items()
        }
        try:
            response = await self._exchange({each.tp: what for each, (_, what) in asked.items()})
        except KohortError as error:
            self._session.handle_error()
            self._cluster.stale(*topics_of(each.tp for each in in_flight))
            for each, revision in in_flight.items():
                if revision == each.revision:
                    self._resolver.failed(each, error)
            return 0
        self._counters.requests.observe(loop.time() - started)
        if response.error:
            return self._refused(in_flight, response.error)
        brought = self._handle(asked, response)
        if brought or loop.time() - started > self._settings.max_wait_ms / 2000:
            self._idle.reset()
            return 0
        return self._idle.next_s()

    async def _exchange(self, wanted: dict[Any, RequestedPartition]) -> FetchResponse:
        request = self._session.request(wanted)
        self._connection = connection = await self._cluster.connection(self._node_id, self._purpose)
        response = await fetch(
            connection,
            request,
            self._settings,
            by_id=all(each.topic_id for each in wanted.values()),
            timeout_ms=self._timeout_ms,
        )
        self._session.handle_response(response.error, response.session_id)
        return response

    def _refused(self, in_flight: Iterable[FetchPartition], code: int) -> float:
        """Handle an error of the response as a whole."""
        error = KafkaError(error_code(code), f"fetching from broker {self._node_id}")
        if is_session_lost(code):
            return self._idle.after(error, "the fetch session")
        for each in in_flight:
            self._resolver.failed(each, error)
        return self._idle.next_s()

    def _handle(
        self,
        asked: dict[FetchPartition, tuple[int, RequestedPartition]],
        response: FetchResponse,
    ) -> bool:
        """Handle all partitions of a response; whether it brought anything."""
        by_key: dict[Any, FetchPartition] = {}
        for each, (_, what) in asked.items():
            by_key[what.topic_id, each.tp.partition] = by_key[each.tp] = each
        brought = False
        for told in response.partitions:
            partition = by_key.pop((told.topic, told.partition), None)
            if partition is None or partition.revision != asked[partition][0]:
                continue
            brought |= self._handle_partition(partition, told)
        for each, (revision, _) in asked.items():
            if revision == each.revision:
                each.attempt_succeeded()
        return brought

    def _handle_partition(self, partition: FetchPartition, told: PartitionResponse) -> bool:
        if told.error:
            self._handle_error(partition, told)
            return True
        partition.update_watermarks(told)
        if told.diverging is not None:
            self._resolver.truncated(partition, told.diverging[1])
            return True
        if told.preferred_replica not in (NO_REPLICA, self._node_id):
            self._resolver.read_from(partition, told.preferred_replica)
            return True
        if partition.reads_replica and partition.is_replica_due(asyncio.get_running_loop().time()):
            self._resolver.read_from(partition, None)
        return bool(told.records) and self._handle_records(partition, told)

    def _handle_records(self, partition: FetchPartition, told: PartitionResponse) -> bool:
        begin = partition.fetch_offset
        try:
            found = scan(partition.tp, told.records, begin, check_crcs=self._settings.check_crcs)
        except KafkaError as error:
            partition.fail(error)
            return True
        if found.next_offset == begin:
            return False
        batch = Batch(
            partition.tp,
            told.records[: found.size],
            begin,
            found.next_offset,
            leader_epoch=found.leader_epoch,
            high_watermark=told.high_watermark,
            last_stable_offset=told.last_stable_offset,
            log_start_offset=told.log_start_offset,
            aborted=told.aborted,
            record_count=found.record_count,
        )
        self._counters.received(batch)
        partition.put(batch)
        return True

    def _handle_error(self, partition: FetchPartition, told: PartitionResponse) -> None:
        code = error_code(told.error)
        if code in WRONG_LEADER or code in UNKNOWN_TOPIC or code is ErrorCode.offset_out_of_range:
            # A recreated topic also responds OFFSET_OUT_OF_RANGE.
            self._cluster.stale(partition.tp.topic)
        error = KafkaError(code, f"fetching {partition.tp} at offset {partition.fetch_offset}")
        if partition.reads_replica:
            # A follower may lag behind or have been removed: its error says nothing of the leader.
            message = (
                f"broker {self._node_id} was to be read instead of the leader of "
                f"{partition.tp}: {error}"
            )
            self._resolver.failed(partition, KafkaError(ErrorCode.replica_not_available, message))
            return
        if code is ErrorCode.offset_out_of_range:
            start = told.log_start_offset
            self._resolver.out_of_range(
                partition, OffsetOutOfRangeError(partition.tp, partition.fetch_offset, start)
            )
        elif code is ErrorCode.corrupt_message:
            partition.fail(error)
        else:
            self._resolver.failed(partition, error)
