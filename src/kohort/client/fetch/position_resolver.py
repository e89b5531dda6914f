"""Makes partitions ready to be fetched: locates leaders, resolves and validates offsets.

All partitions that became unready in one turn of the loop are resolved together, with one request
of each kind per broker. A partition that fails is resolved again after its own backoff. No
partition waits for the failure of another.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kohort.client.cluster import EARLIEST, LATEST, Cluster, Isolation, Leader, Offset, list_offsets
from kohort.client.errors import (
    UNKNOWN_TOPIC,
    WRONG_LEADER,
    GaveUpError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    is_retriable,
)
from kohort.client.fetch.partition import FetchPartition
from kohort.client.fetch.positions import UNDEFINED, ReadPosition, end_offsets
from kohort.errors import ErrorCode, KafkaError, KohortError

log: Final = logging.getLogger(__name__)

RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}
"""Offset query of each reset policy; under "error" an offset out of range is an error."""


class PositionResolver:
    """Resolves unready partitions, and calls `on_ready` with each one that became ready."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: Isolation,
        out_of_range: str,
        patience_s: float,
        on_ready: Callable[[FetchPartition], None],
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._reset_to = RESETS.get(out_of_range)
        self._patience_s = patience_s
        self._on_ready = on_ready
        self._queue: dict[FetchPartition, None] = {}
        self._timers: dict[FetchPartition, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def resolve(self, partition: FetchPartition) -> None:
        """Resolve the partition, at the end of this turn of the loop."""
        partition.invalidate_leader()
        self.forget(partition)
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._start)
        self._queue[partition] = None

    def failed(self, partition: FetchPartition, error: Exception) -> None:
        """Handle a failed attempt: retry after a pause, or raise an error that is not retriable."""
        if (
            not is_retriable(error)
            and not _is_server_fault(error)
            and not isinstance(error, GaveUpError)
        ):
            partition.fail(error)
            return
        loop = asyncio.get_running_loop()
        delay = partition.attempt_failed(error, loop.time(), self._patience_s)
        self.forget(partition)
        self._timers[partition] = loop.call_later(delay, self.resolve, partition)

    def out_of_range(self, partition: FetchPartition, error: KohortError) -> None:
        """Reset the offset, or have `error` raised, as the policy requires."""
        if self._reset_to is None:
            partition.fail(error)
            return
        fact = error.fact if isinstance(error, OffsetOutOfRangeError) else error
        continued = (
            "first offset of the log"
            if self._reset_to == EARLIEST
            else "end of the log: records before it are skipped, as the reset policy says"
        )
        log.warning("%s; continuing at the %s", fact, continued)
        partition.request_reset(self._reset_to)
        self.resolve(partition)

    def forget(self, partition: FetchPartition) -> None:
        """Stop resolving the partition."""
        self._queue.pop(partition, None)
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        """End all requests that are in flight."""
        for timer in self._timers.values():
            timer.cancel()
        self._queue.clear()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        partitions = tuple(self._queue)
        self._queue.clear()
        if partitions:
            task = asyncio.get_running_loop().create_task(self._resolve_all(partitions))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _resolve_all(self, partitions: Sequence[FetchPartition]) -> None:
        revisions = {partition: partition.revision for partition in partitions}
        try:
            await self._resolve(partitions)
        except Exception as fault:  # a fault of the client: `pop_batch` raises it
            log.exception("internal error while resolving fetch positions")
            for partition, revision in revisions.items():
                if revision == partition.revision and not partition.is_ready:
                    partition.fail(fault)

    async def _resolve(self, partitions: Sequence[FetchPartition]) -> None:
        all_located = await asyncio.gather(*map(self._locate, partitions))
        awaiting_reset: list[_Located] = []
        awaiting_validation: list[_Located] = []
        for located in all_located:
            if located is None:
                continue
            partition, leader, revision = located
            if partition.awaits_reset:
                awaiting_reset.append(located)
            elif partition.awaits_validation(leader):
                awaiting_validation.append(located)
            else:
                self._ready(partition, leader, revision)
        await asyncio.gather(self._reset(awaiting_reset), self._validate(awaiting_validation))

    async def _locate(self, partition: FetchPartition) -> "_Located | None":
        revision = partition.revision
        try:
            leader = await self._cluster.request_leader(partition.tp)
        except KohortError as error:
            if revision == partition.revision:
                self.failed(partition, error)
            return None
        topic = self._cluster.cached_topic(partition.tp.topic)
        try:
            partition.identify(topic.id if topic is not None else None)
        except TopicRecreatedError as error:
            partition.fail(error)
            return None
        return partition, leader, revision

    def _ready(self, partition: FetchPartition, leader: Leader, revision: int) -> None:
        if revision == partition.revision:
            partition.lead_by(leader)
            self.read_from(partition, None)

    def read_from(self, partition: FetchPartition, replica: int | None) -> None:
        """Fetch from that follower for `metadata_max_age_ms`, or from the leader (KIP-392)."""
        max_age_s = self._cluster.config.metadata_max_age_ms / 1000
        partition.prefer_replica(replica, asyncio.get_running_loop().time() + max_age_s)
        self._on_ready(partition)

    async def _reset(self, located: Iterable["_Located"]) -> None:
        by_tp = {entry[0].tp: entry for entry in located}
        if not by_tp:
            return
        queries = {tp: entry[0].fetch_offset for tp, entry in by_tp.items()}
        timeout_ms = self._cluster.config.request_timeout_ms
        offsets = await list_offsets(self._cluster, queries, self._isolation, timeout_ms=timeout_ms)
        for tp, (partition, leader, revision) in by_tp.items():
            if revision != partition.revision:
                continue
            outcome = offsets[tp]
            if not isinstance(outcome, Offset):
                self.failed(partition, outcome)
                continue
            partition.complete_reset(outcome.offset)
            self._ready(partition, leader, revision)

    async def _validate(self, located: Iterable["_Located"]) -> None:
        by_node: defaultdict[int, list[_Located]] = defaultdict(list)
        for entry in located:
            by_node[entry[1].node_id].append(entry)
        await asyncio.gather(
            *(self._validate_with_leader(node_id, on_node) for node_id, on_node in by_node.items())
        )

    async def _validate_with_leader(self, node_id: int, located: Sequence["_Located"]) -> None:
        read = {
            partition.tp: ReadPosition(leader, partition.last_epoch)
            for partition, leader, _ in located
        }
        try:
            ends = await end_offsets(self._cluster, node_id, read)
        except KohortError as error:
            self._cluster.stale(*{tp.topic for tp in read})
            for partition, _, revision in located:
                if revision == partition.revision:
                    self.failed(partition, error)
            return
        for partition, leader, revision in located:
            if revision == partition.revision:
                self._complete_validation(partition, leader, ends.get(partition.tp))

    def _complete_validation(
        self, partition: FetchPartition, leader: Leader, end: int | KafkaError | None
    ) -> None:
        """`end`: end offset of the last read epoch in the leader's log; None if that is unknown."""
        if isinstance(end, KafkaError):
            if end.code in WRONG_LEADER or end.code in UNKNOWN_TOPIC:
                self._cluster.stale(partition.tp.topic)
            self.failed(partition, end)
        elif end is None or (end != UNDEFINED and end >= partition.fetch_offset):
            self._ready(partition, leader, partition.revision)
        else:
            self.truncated(partition, end)

    def truncated(self, partition: FetchPartition, end: int) -> None:
        """Handle a log that lost read records: those from `end` on (-1: unknown)."""
        error = LogTruncatedError(partition.tp, partition.fetch_offset, end)
        if self._reset_to is None or end == UNDEFINED:
            self.out_of_range(partition, error)
            return
        log.warning("%s", error)
        partition.truncate(end)
        self.resolve(partition)


_Located = tuple[FetchPartition, Leader, int]
"""A partition, its leader, and the partition's revision when the leader was requested."""


def _is_server_fault(error: Exception) -> bool:
    """Whether the broker failed with UNKNOWN_SERVER_ERROR; the next attempt may succeed."""
    return isinstance(error, KafkaError) and error.code is ErrorCode.unknown_server_error
