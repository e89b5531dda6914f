"""Reads partitions: fetches ahead from all leaders at once, and returns batch by batch.

    async with Fetcher(cluster) as fetcher:
        fetcher.add(TopicPartition("orders", 0), EARLIEST)
        while (batch := await fetcher.next_any(max_wait_ms=1_000)) is not None:
            for record in batch.records: ...

Each broker has one request in flight (two, see `broker_fetcher`), for all its fetchable partitions,
in an incremental fetch session (KIP-227). Batches are buffered until `next` returns them. A
partition with `max_partition_fetch_bytes` buffered is not requested, and none is while
`max_buffered_bytes` are buffered in all.

An error concerns one partition: `next` of that partition raises it, and the others continue. A
leader that moved, an unreachable broker and an unknown topic are retried with backoff, and reported
by one GaveUpError per `patience_ms`. Every `next` until `seek` raises an error that is not
retriable: OffsetOutOfRangeError under the policy "error", TopicRecreatedError, LogTruncatedError,
KafkaError such as TOPIC_AUTHORIZATION_FAILED or CORRUPT_MESSAGE.
"""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Self
from uuid import UUID

from kohort.client.cluster import EARLIEST, LATEST, NO_EPOCH, Cluster, Isolation
from kohort.client.config import MAX_MS, OutOfRange, validate_flag, validate_int, validate_text
from kohort.client.errors import NotAssignedError
from kohort.client.fetch.batch import Batch
from kohort.client.fetch.broker_fetcher import CONNECTIONS_PER_BROKER, BrokerFetcher
from kohort.client.fetch.counters import FetchCounters
from kohort.client.fetch.partition import Budget, FetchPartition
from kohort.client.fetch.position_resolver import RESETS, PositionResolver
from kohort.client.fetch.request import FetchSettings
from kohort.client.fetch.waiters import Waiters
from kohort.client.metrics import FetchMetrics
from kohort.client.offset_and_metadata import committable
from kohort.client.properties import checks_arguments
from kohort.errors import ConfigError, KohortError
from kohort.types import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Batch", "Fetcher"]

log: Final = logging.getLogger(__name__)

_numbers: Final = itertools.count(1)


@checks_arguments
class Fetcher:
    """A reader of partitions, used from one event loop. `close`, or leaving its block, ends it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: Isolation = "read_uncommitted",
        out_of_range: OutOfRange = "error",
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        fetch_max_wait_ms: int = 500,
        max_partition_fetch_bytes: int = 1024 * 1024,
        max_buffered_bytes: int = 64 * 1024 * 1024,
        check_crcs: bool = True,
        patience_ms: int | None = None,
        rack: str = "",
    ) -> None:
        """Options have Kafka's names; sizes in bytes. Raises ConfigError.

        `patience_ms` (default: `default_api_timeout_ms`): how long attempts for a partition may
        fail before `next` raises GaveUpError.
        """
        if not isinstance(cluster, Cluster):
            raise ConfigError(f"a Fetcher reads over an open Cluster, not {cluster!r}")
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ConfigError(f"isolation {isolation!r}: it is read_uncommitted or read_committed")
        if out_of_range not in (*RESETS, "error"):
            raise ConfigError(f"out_of_range {out_of_range!r}: it is earliest, latest or error")
        validate_int("fetch_max_wait_ms", fetch_max_wait_ms, 0, MAX_MS)
        for name in (
            "fetch_min_bytes",
            "fetch_max_bytes",
            "max_partition_fetch_bytes",
            "max_buffered_bytes",
        ):
            validate_int(name, locals()[name], 1, 2**31 - 1)
        validate_flag("check_crcs", check_crcs)
        validate_text("rack", rack)
        if patience_ms is not None:
            validate_int("patience_ms", patience_ms, 1, MAX_MS)
        patience_ms = cluster.config.default_api_timeout_ms if patience_ms is None else patience_ms
        self._cluster = cluster
        self._settings = FetchSettings(
            isolation=isolation,
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            max_wait_ms=fetch_max_wait_ms,
            partition_bytes=max_partition_fetch_bytes,
            check_crcs=check_crcs,
            rack=rack,
        )
        self._budget = Budget(max_buffered_bytes, self._wake_all)
        self._partitions: dict[TopicPartition, FetchPartition] = {}
        # Partitions with a batch or an error to return, the longest waiting first.
        self._ready: dict[FetchPartition, None] = {}
        self._broker_fetchers: dict[
            int, tuple[asyncio.Event, list[BrokerFetcher]]
        ] = {}  # by node id
        self._any = Waiters()
        self._counters = FetchCounters()
        self._number = next(_numbers)
        self.failure: BaseException | None = None
        """The fault of the client that ended all fetching; None: none."""
        self._resolver = PositionResolver(
            cluster,
            isolation=isolation,
            out_of_range=out_of_range,
            patience_s=patience_ms / 1000,
            on_ready=self._resolved,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Fetcher {len(self._partitions)} partitions, {self._budget.used} bytes ahead>"

    async def close(self) -> None:
        """End all requests and close their connections. Idempotent."""
        for tp in tuple(self._partitions):
            self.remove(tp)
        await self._resolver.close()
        fetchers = [
            fetcher for _, fetchers in self._broker_fetchers.values() for fetcher in fetchers
        ]
        self._broker_fetchers.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers))
        for number in range(CONNECTIONS_PER_BROKER):
            await self._cluster.release(self._purpose(number))

    # Assignment

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions of this fetcher."""
        return frozenset(self._partitions)

    @property
    def buffered_bytes(self) -> int:
        """Size of all buffered batches in bytes."""
        return self._budget.used

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions; present ones keep their position.

        Raises ValueError without any change.
        """
        offsets = {tp: _readable_offset(tp, offset) for tp, offset in offsets.items()}
        for tp in self._partitions.keys() - offsets.keys():
            self.remove(tp)
        for tp, offset in offsets.items():
            if tp not in self._partitions:
                self.add(tp, offset)

    def add(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Read a partition from `offset` on, which may be EARLIEST or LATEST; if present, `seek`.

        `leader_epoch` is the epoch of the record before, as committed with the offset. With it,
        records that an unclean election lost are detected (KIP-320). Raises ValueError.
        """
        offset = _readable_offset(tp, offset)
        if tp in self._partitions:
            self.seek(tp, offset, leader_epoch)
            return
        partition = FetchPartition(
            tp,
            offset,
            leader_epoch,
            backoff=self._cluster.backoff(),
            budget=self._budget,
            on_change=self._mark_ready,
        )
        self._partitions[tp] = partition
        self._resolver.resolve(partition)

    def remove(self, tp: TopicPartition) -> None:
        """Stop reading the partition and drop its batches; its `next` raises NotAssignedError."""
        partition = self._partitions.pop(tp, None)
        if partition is None:
            return
        self._resolver.forget(partition)
        self._ready.pop(partition, None)
        partition.remove()
        if not self._partitions:
            self._any.wake()

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Continue at another offset, EARLIEST or LATEST. Raises NotAssignedError, ValueError."""
        partition = self._partition(tp)
        offset = _readable_offset(tp, offset)
        must_resolve = partition.seek(offset, leader_epoch)
        self._ready.pop(partition, None)
        if must_resolve:
            self._resolver.resolve(partition)
        else:
            self._wake(partition)

    def pause(self, *tps: TopicPartition) -> None:
        """Fetch and return no records of these partitions until `resume`; buffered batches stay.

        Raises NotAssignedError.
        """
        for tp in tps:
            partition = self._partition(tp)
            partition.pause()
            self._ready.pop(partition, None)

    def resume(self, *tps: TopicPartition) -> None:
        """End `pause` for these partitions. Raises NotAssignedError."""
        for tp in tps:
            partition = self._partition(tp)
            partition.resume()
            self._mark_ready(partition)
            self._wake(partition)

    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        return frozenset(tp for tp, partition in self._partitions.items() if partition.is_paused)

    def position(self, tp: TopicPartition) -> int | None:
        """The offset that `next` returns next; None while unresolved. Raises NotAssignedError."""
        position = self._partition(tp).position
        return None if position < 0 else position

    def topic_id(self, tp: TopicPartition) -> UUID | None:
        """The id of the topic when the partition was first located; None before, or if unknown.

        Raises NotAssignedError.
        """
        return self._partition(tp).topic_id

    def high_watermark(self, tp: TopicPartition) -> int | None:
        """The high watermark as of the last fetch; None before the first.

        Raises NotAssignedError.
        """
        high_watermark = self._partition(tp).high_watermark
        return None if high_watermark < 0 else high_watermark

    def lag(self, tp: TopicPartition) -> int | None:
        """Offsets from `position` to the end as of the last fetch; None before the first.

        The end is the high watermark, under read_committed the last stable offset. Raises
        NotAssignedError.
        """
        return self._partition(tp).lag(is_committed=self._settings.is_committed)

    def metrics(self) -> FetchMetrics:
        """Counters of fetches, and the state of each partition."""
        is_committed = self._settings.is_committed
        return self._counters.snapshot(
            {
                tp: partition.metrics(is_committed=is_committed)
                for tp, partition in tuple(self._partitions.items())
            }
        )

    # Batches

    async def next(self, tp: TopicPartition, *, max_wait_ms: float) -> Batch | None:
        """The next batch of a partition; None if none arrived within `max_wait_ms`.

        With 0 only a buffered batch is returned. Raises the partition's error (see the module),
        NotAssignedError, also if the partition is removed meanwhile, and KohortError once the
        fetcher has failed.
        """
        await self.wait(tp, max_wait_ms=max_wait_ms)
        partition = self._partition(tp)
        return self._pop_batch(partition) if partition.is_takeable else None

    async def wait(self, tp: TopicPartition, *, max_wait_ms: float) -> None:
        """Wait at most `max_wait_ms` until `next` has a batch or an error; removes no batch.

        Raises NotAssignedError.
        """
        partition = self._partition(tp)
        if not partition.is_takeable and max_wait_ms > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(max_wait_ms / 1000):
                    while (
                        not partition.is_takeable
                        and self._partitions.get(tp) is partition
                        and self.failure is None
                    ):
                        await partition.changed()
        self._raise_failure()
        if self._partitions.get(tp) is not partition:
            raise _not_assigned(tp)

    async def next_any(
        self, *, max_wait_ms: float, before: Mapping[TopicPartition, int] | None = None
    ) -> Batch | None:
        """The next batch of the partition that waited longest; None if none arrived in time.

        With `before`, only of partitions whose position is below their offset in `before`. None
        also if there is no such partition, or the last partition is removed meanwhile. Raises the
        error of the partition that waited longest.
        """
        partition = self._next_ready(before)
        if partition is None and max_wait_ms > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(max_wait_ms / 1000):
                    partition = await self._wait_for_any(before)
        self._raise_failure()
        return None if partition is None else self._pop_batch(partition)

    async def _wait_for_any(
        self, before: Mapping[TopicPartition, int] | None
    ) -> FetchPartition | None:
        while self.failure is None and (before is None or self._has_any_before(before)):
            await self._any.wait()
            partition = self._next_ready(before)
            if partition is not None or not self._partitions:
                return partition
        return None

    def _next_ready(self, before: Mapping[TopicPartition, int] | None) -> FetchPartition | None:
        ready = (partition for partition in self._ready if _is_before(partition, before))
        return next(ready, None)

    def _has_any_before(self, before: Mapping[TopicPartition, int]) -> bool:
        return any(_is_before(partition, before) for partition in self._partitions.values())

    def _pop_batch(self, partition: FetchPartition) -> Batch | None:
        self._ready.pop(partition, None)
        try:
            batch = partition.pop_batch()
        finally:
            self._mark_ready(partition)
        self._wake(partition)
        return batch

    def _partition(self, tp: TopicPartition) -> FetchPartition:
        partition = self._partitions.get(tp)
        if partition is None:
            raise _not_assigned(tp)
        return partition

    # For broker fetchers, partitions and the resolver

    def _partitions_to_fetch(self, node_id: int) -> list[FetchPartition]:
        """The partitions to request from that broker now."""
        if self._budget.is_full:
            return []
        limit = self._settings.partition_bytes
        return [
            partition
            for partition in self._partitions.values()
            if partition.is_fetchable(node_id, limit)
        ]

    def _mark_ready(self, partition: FetchPartition) -> None:
        """Add the partition to the ready ones if it has a batch or an error to return."""
        tp = partition.tp
        if not partition.is_takeable or self._partitions.get(tp) is not partition:
            return
        # Last in the next request: a broker fills its response in the order of the request.
        self._partitions[tp] = self._partitions.pop(tp)
        self._ready[partition] = None
        partition.wake()
        self._any.wake()

    def _fail(self, error: BaseException) -> None:
        """End all fetching after a fault of the client: waiting calls raise it."""
        if not isinstance(error, asyncio.CancelledError):
            log.error("the fetcher ended with an internal error", exc_info=error)
        self.failure = error
        for partition in self._partitions.values():
            partition.wake()
        self._any.wake()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise KohortError(f"the fetcher failed: {self.failure!r}") from self.failure

    def _resolved(self, partition: FetchPartition) -> None:
        """The partition is fetchable, perhaps from another position."""
        self._any.wake()
        self._wake(partition)

    def _wake(self, partition: FetchPartition) -> None:
        """Wake the fetchers of the partition's broker."""
        node_id = partition.node_id
        if node_id is None:
            return
        if node_id not in self._broker_fetchers:
            self._broker_fetchers[node_id] = self._new_broker_fetchers(node_id)
        self._broker_fetchers[node_id][0].set()

    def _wake_all(self) -> None:
        for wake, _ in self._broker_fetchers.values():
            wake.set()

    def _new_broker_fetchers(self, node_id: int) -> tuple[asyncio.Event, list[BrokerFetcher]]:
        wake = asyncio.Event()
        fetchers = [
            BrokerFetcher(
                self._cluster,
                node_id,
                purpose=self._purpose(number),
                settings=self._settings,
                wake=wake,
                select_partitions=self._partitions_to_fetch,
                resolver=self._resolver,
                counters=self._counters,
                on_failure=self._fail,
            )
            for number in range(CONNECTIONS_PER_BROKER)
        ]
        return wake, fetchers

    def _purpose(self, connection: int) -> str:
        return f"fetch {self._number}.{connection}"


def _is_before(partition: FetchPartition, before: Mapping[TopicPartition, int] | None) -> bool:
    return before is None or partition.position < before.get(partition.tp, 0)


def _not_assigned(tp: TopicPartition) -> NotAssignedError:
    return NotAssignedError(
        f"{tp} is not assigned: assign it to the Consumer, or add it to the Fetcher, first"
    )


def _readable_offset(tp: TopicPartition, offset: int) -> int:
    """An offset to read from: EARLIEST, LATEST, or one of the log. Raises TypeError, ValueError."""
    return offset if offset in (EARLIEST, LATEST) else committable(tp, offset).offset
