"""Partitions that a node leads: opened and closed as the metadata log says."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any, Final

from kohort.cluster import LEASE_MS
from kohort.errors import KafkaError, fresh
from kohort.runtime.clock import Clock
from kohort.server.cluster.participation_errors import STORAGE_FAILURES
from kohort.server.logging import fields
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import SharedReplicaManager
from kohort.types import Instant, TopicIdPartition, TopicPartition
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.cluster")

PRODUCER_TRANSITION_MS: Final = 30_000 + LEASE_MS
"""Time in which a producer retries a batch that it sent to the previous leader of a partition.

A leader that hangs has it for the `request.timeout.ms` of Kafka's producers. A client with older
metadata may still ask that one later: its next batch is then taken first, as in Kafka.
"""
TRANSITION_BATCH: Final = 5_000
"""Partitions whose transition ends in one tick."""
_OPEN_BATCH: Final = 100
_TASK_BATCH: Final = 20
"""Tasks that start in one turn of the event loop: each takes up to 1 ms."""


class LedPartitions:
    """Opens and closes the partitions that one node leads."""

    def __init__(
        self,
        node_id: int,
        metadata: SharedMetadataLog,
        replicas: SharedReplicaManager,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock
        self._reconciled: tuple[int, bool, int, int] | None = None
        """Inputs of the last full reconciliation: log end, lease, counts of opened and closed."""
        self._last_open_error: str | None = None
        """Last error of a partition that could not be opened."""
        self._in_transition: dict[TopicPartition, Instant] = {}
        """Partitions in their transition period with its start, the latest last."""

    @property
    def led_epochs(self) -> Mapping[TopicPartition, int]:
        """The partitions that are open here, with their leader epochs."""
        return self._replicas.led_epochs

    def assigned(self) -> Sequence[tuple[TopicIdPartition, int]]:
        """Partitions and epochs that the metadata log assigns to this node."""
        leaders = self._metadata.state.cluster.leaders.items()
        return [
            (id_partition, epoch)
            for id_partition, (node, epoch) in leaders
            if node == self._node_id
        ]

    async def reconcile(self, *, may_lead: bool) -> None:
        """Lead the assigned partitions, and no others; none unless `may_lead`. Raises OSError."""
        replicas, end_offset = self._replicas, self._metadata.end_offset
        if self._reconciled == (
            end_offset,
            may_lead,
            replicas.leaderships_gained,
            replicas.leaderships_lost,
        ):
            return
        slices, assigned = TimeSlices(), dict[TopicPartition, int]()
        to_open, led_epochs = [], replicas.led_epochs
        for id_partition, epoch in self.assigned() if may_lead else ():
            partition = replicas.partition_of(id_partition)
            if partition is not None:
                assigned[partition] = epoch
                if led_epochs.get(partition) != epoch:
                    to_open.append((id_partition, epoch))
            await slices.give_way()
        await self.resign(
            [
                partition
                for partition, epoch in led_epochs.items()
                if assigned.get(partition) != epoch
            ]
        )
        is_complete = await self._open(to_open)
        # Fewer are led if the lease was over meanwhile.
        if is_complete and len(led_epochs) == len(assigned):
            self._reconciled = (
                end_offset,
                may_lead,
                replicas.leaderships_gained,
                replicas.leaderships_lost,
            )

    async def _open(self, id_partitions: Sequence[tuple[TopicIdPartition, int]]) -> bool:
        """Open partitions in these epochs; False, with a line in the log, if some cannot be."""
        failures: list[Exception] = []
        for start in range(0, len(id_partitions), _OPEN_BATCH):
            batch = id_partitions[start : start + _OPEN_BATCH]
            await run_all(
                self._become_leader(id_partition, epoch, failures) for id_partition, epoch in batch
            )
        error = str(failures[0]) if failures else None
        if error not in (None, self._last_open_error):
            logger.error(
                "cannot open partitions, retrying",
                extra=fields(partitions=len(failures), why=error),
            )
        self._last_open_error = error
        return not failures

    async def _become_leader(
        self, id_partition: TopicIdPartition, epoch: int, failures: list[Exception]
    ) -> None:
        """Lead a partition. An error is added to `failures`, and does not stop the others."""
        try:
            await self._replicas.become_leader(id_partition, epoch)
        except (OSError, KafkaError) as error:
            failures.append(error.with_traceback(None))
            return
        if (partition := self._replicas.partition_of(id_partition)) is not None:
            self._in_transition.pop(partition, None)
            self._in_transition[partition] = self._clock.now()

    def end_transitions(self) -> None:
        """End the transition of partitions that are led for `PRODUCER_TRANSITION_MS`."""
        now = self._clock.now()
        ended = takewhile(
            lambda item: now - item[1] >= PRODUCER_TRANSITION_MS, self._in_transition.items()
        )
        for partition, _ in list(islice(ended, TRANSITION_BATCH)):
            del self._in_transition[partition]
            self._replicas.end_transition(partition)

    async def resign(self, partitions: Iterable[TopicPartition]) -> None:
        """Close partitions.

        Raises OSError if the outcome of the last append to one of them is unknown.
        """
        await run_all(self._replicas.resign(partition) for partition in partitions)

    async def resign_all(self) -> None:
        """Close all partitions: other nodes may have taken them over."""
        with suppress(*STORAGE_FAILURES):
            await self.resign(tuple(self._replicas.led_epochs))


async def run_all(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when all coroutines have ended, then raise the first failure.

    When cancelled, cancel the tasks that have started, and wait for them.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        for coroutine in coroutines:
            tasks.append(asyncio.create_task(coroutine))
            if not len(tasks) % _TASK_BATCH:
                await asyncio.sleep(0)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for failure in outcomes:
        if failure is not None:
            raise fresh(failure)
