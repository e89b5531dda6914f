"""Makes partitions ready to be fetched: finds their leaders, the offsets to begin at, and what has
changed meanwhile.

All that became unready in one turn of the loop is prepared together, with one request per broker of
each kind. What fails waits for its own backoff and comes again; nothing waits for another
partition's trouble.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kohort.client.cluster import (
    EARLIEST,
    LATEST,
    NO_EPOCH,
    Cluster,
    Isolation,
    Leader,
    Offset,
    list_offsets,
)
from kohort.client.errors import (
    UNKNOWN_TOPIC,
    WRONG_LEADER,
    GaveUpError,
    LogTruncatedError,
    TopicRecreatedError,
    is_retriable,
)
from kohort.client.fetch.partition import FetchPartition
from kohort.client.fetch.positions import UNDEFINED, ReadPosition, end_offsets
from kohort.errors import ErrorCode, KafkaError, KohortError

log: Final = logging.getLogger(__name__)

RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}
"""What an offset that is not there becomes, by policy; with "error" it stays an error."""


class PositionResolver:
    """Takes unready partitions, and calls `on_ready` with each that became ready."""

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
        """Have it made ready, at the end of this turn of the loop."""
        partition.leader = None
        self.forget(partition)
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._start)
        self._queue[partition] = None

    def failed(self, partition: FetchPartition, error: Exception) -> None:
        """What was tried with the partition did not succeed: have it prepared again later, or
        never.
        """
        if not is_retriable(error) and not _is_mishap(error) and not isinstance(error, GaveUpError):
            partition.refuse(error)
            return
        partition.leader = None
        loop = asyncio.get_running_loop()
        delay = partition.failed(error, loop.time(), self._patience_s)
        self.forget(partition)
        self._timers[partition] = loop.call_later(delay, self.resolve, partition)

    def out_of_range(self, partition: FetchPartition, error: KohortError) -> None:
        """The partition cannot go on where it is: begin elsewhere, or have the error raised, as the
        policy says.
        """
        if self._reset_to is None:
            partition.refuse(error)
            return
        log.warning(
            "%s; going on from %s", error, "the first" if self._reset_to == EARLIEST else "the last"
        )
        partition.fetch_offset, partition.epoch = self._reset_to, NO_EPOCH
        self.resolve(partition)

    def forget(self, partition: FetchPartition) -> None:
        """It is not to be prepared any more."""
        self._queue.pop(partition, None)
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        """End what is being asked."""
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
        serials = {each: each.serial for each in partitions}
        try:
            await self._resolve(partitions)
        except Exception as fault:  # our own: whoever reads is told, rather than left waiting
            log.exception("preparing to fetch")
            for each, serial in serials.items():
                if serial == each.serial and each.leader is None:
                    each.refuse(fault)

    async def _resolve(self, partitions: Sequence[FetchPartition]) -> None:
        found = await asyncio.gather(*map(self._locate, partitions))
        located = [each for each in found if each is not None]
        without_offset = [each for each in located if each[0].needs_offset]
        doubtful = [
            each for each in located if not each[0].needs_offset and _is_doubtful(*each[:2])
        ]
        for partition, leader, serial in located:
            if not partition.needs_offset and not _is_doubtful(partition, leader):
                self._ready(partition, leader, serial)
        await asyncio.gather(self._find_offsets(without_offset), self._validate(doubtful))

    async def _locate(self, partition: FetchPartition) -> "_Located | None":
        serial = partition.serial
        try:
            leader = await self._cluster.ask_leader(partition.tp)
        except KohortError as error:
            if serial == partition.serial:
                self.failed(partition, error)
            return None
        topic = self._cluster.known_topic(partition.tp.topic)
        topic_id = topic.id if topic is not None else None
        if (
            partition.topic_id is not None
            and topic_id is not None
            and topic_id != partition.topic_id
        ):
            partition.refuse(TopicRecreatedError(partition.tp))
            return None
        partition.topic_id = topic_id or partition.topic_id
        return partition, leader, serial

    def _ready(self, partition: FetchPartition, leader: Leader, serial: int) -> None:
        if serial == partition.serial:
            partition.leader = partition.validated = leader
            self.read_from(partition, None)

    def read_from(self, partition: FetchPartition, replica: int | None) -> None:
        """Fetch from that follower for `metadata_max_age_ms`, or from the leader (KIP-392)."""
        max_age_s = self._cluster.config.metadata_max_age_ms / 1000
        partition.replica, partition.replica_until = (
            replica,
            asyncio.get_running_loop().time() + max_age_s,
        )
        self._on_ready(partition)

    async def _find_offsets(self, located: Iterable["_Located"]) -> None:
        by_tp = {each[0].tp: each for each in located}
        if not by_tp:
            return
        wanted = {tp: each[0].fetch_offset for tp, each in by_tp.items()}
        timeout_ms = self._cluster.config.request_timeout_ms
        found = await list_offsets(self._cluster, wanted, self._isolation, timeout_ms=timeout_ms)
        for tp, (partition, leader, serial) in by_tp.items():
            if serial != partition.serial:
                continue
            outcome = found[tp]
            if not isinstance(outcome, Offset):
                self.failed(partition, outcome)
                continue
            partition.begin_at(outcome.offset)
            self._ready(partition, leader, serial)

    async def _validate(self, located: Iterable["_Located"]) -> None:
        by_node: defaultdict[int, list[_Located]] = defaultdict(list)
        for each in located:
            by_node[each[1].node_id].append(each)
        await asyncio.gather(
            *(self._validate_at(node_id, each) for node_id, each in by_node.items())
        )

    async def _validate_at(self, node_id: int, located: Sequence["_Located"]) -> None:
        read = {
            partition.tp: ReadPosition(leader, partition.epoch) for partition, leader, _ in located
        }
        try:
            ends = await end_offsets(self._cluster, node_id, read)
        except KohortError as error:
            self._cluster.stale(*{tp.topic for tp in read})
            for partition, _, serial in located:
                if serial == partition.serial:
                    self.failed(partition, error)
            return
        for partition, leader, serial in located:
            if serial == partition.serial:
                self._judge(partition, leader, ends.get(partition.tp))

    def _judge(
        self, partition: FetchPartition, leader: Leader, end: int | KafkaError | None
    ) -> None:
        """The leader's log has `end` as the end of the epoch that was read last; None: it cannot
        tell.
        """
        if isinstance(end, KafkaError):
            if end.code in WRONG_LEADER or end.code in UNKNOWN_TOPIC:
                self._cluster.stale(partition.tp.topic)
            self.failed(partition, end)
        elif end is None or (end != UNDEFINED and end >= partition.fetch_offset):
            self._ready(partition, leader, partition.serial)
        else:
            self.truncated(partition, end)

    def truncated(self, partition: FetchPartition, end: int) -> None:
        """Of what was read, the records from `end` on are not in the log any more (-1: nobody knows
        from where on).
        """
        error = LogTruncatedError(partition.tp, partition.fetch_offset, end)
        if self._reset_to is None or end == UNDEFINED:
            self.out_of_range(partition, error)
            return
        log.warning("%s", error)
        partition.truncate(end)
        self.resolve(partition)


_Located = tuple[FetchPartition, Leader, int]
"""A partition, its leader, and its serial when it was asked for."""


def _is_mishap(error: Exception) -> bool:
    """A broker that failed in a way that it has no code for may not fail again."""
    return isinstance(error, KafkaError) and error.code is ErrorCode.unknown_server_error


def _is_doubtful(partition: FetchPartition, leader: Leader) -> bool:
    """Whether the leader has to be asked if the offset still follows the epoch that was read last."""
    return (
        partition.epoch != NO_EPOCH and leader.epoch != NO_EPOCH and partition.validated != leader
    )
