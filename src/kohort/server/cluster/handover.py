"""Planned moves of partitions from one node to another.

A partition that is planned to move is read by its next leader while the current leader serves it.
The next leader logs that it is ready. Then the current leader closes the partition, and logs the
change of the leader. During the handover, requests get NOT_LEADER_OR_FOLLOWER for a few
milliseconds. If the next leader is not ready in time, or has lost its copy, it reads the whole
partition after the handover. A leader that is gone is replaced without a handover.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from kohort.cluster import MAX_MOVES, NO_LEADER, Leader, LeaderChanged, ReassignmentPlanned
from kohort.runtime.clock import Clock
from kohort.server.cluster.led_partitions import LedPartitions
from kohort.server.metadata import MetadataRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import SharedReplicaManager
from kohort.types import Instant, TopicIdPartition

READY_TIMEOUT_MS: Final = 60_000
"""Time that the next leader of a partition has to read it; then it gets the partition unread."""
READY_REPORT_INTERVAL_MS: Final = 200
"""Time between two reports of partitions that are ready, while others are not."""


class Handover:
    """The part of one node in moves: it is the next leader of some, and the current one of others.

    `wake` is called when there is more to do.
    """

    def __init__(
        self,
        node_id: int,
        metadata: SharedMetadataLog,
        replicas: SharedReplicaManager,
        partitions: LedPartitions,
        clock: Clock,
        wake: Callable[[], object],
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._replicas = replicas
        self._partitions = partitions
        self._clock = clock
        self._wake = wake
        self._planned: dict[tuple[TopicIdPartition, int], Instant] = {}
        """Planned moves of partitions that this node leads, and when they were first seen."""
        self._last_ready_report = clock.now()
        """Time of the last report of partitions that are ready."""

    # As the next leader

    async def start_standbys(self) -> None:
        """Read the partitions that this node leads next, and report those that are ready.

        Raises as `SharedMetadataLog.decide`.
        """
        incoming = self._incoming_moves()
        incoming_partitions = {
            self._replicas.partition_of(id_partition) for id_partition in incoming
        }
        for partition in self._replicas.standbys.keys() - incoming_partitions:
            self._replicas.stop_standby(partition)
        for id_partition in incoming:
            self._replicas.start_standby(id_partition, self._wake)
        for log in self._replicas.standbys.values():
            log.look()
        ready, now = self._ready_records(), self._clock.now()
        unread = len(incoming) - len(self._metadata.state.cluster.ready.intersection(incoming))
        if ready and (
            len(ready) == unread or now - self._last_ready_report >= READY_REPORT_INTERVAL_MS
        ):
            self._last_ready_report = now
            await self._metadata.decide(self._ready_records)

    def _incoming_moves(self) -> list[TopicIdPartition]:
        """Partitions that this node leads next, and another node leads now."""
        cluster = self._metadata.state.cluster
        return [
            id_partition
            for id_partition, to in cluster.moves.items()
            if to == self._node_id and cluster.leader(id_partition).node not in (to, NO_LEADER)
        ]

    def _ready_records(self) -> Sequence[MetadataRecord]:
        """Records of partitions that are ready and not reported yet."""
        reported = self._metadata.state.cluster.ready
        ready = {partition for partition, log in self._replicas.standbys.items() if log.is_ready}
        return [
            ReassignmentPlanned(id_partition, self._node_id, is_ready=True)
            for id_partition in self._incoming_moves()
            if id_partition not in reported and self._replicas.partition_of(id_partition) in ready
        ]

    # As the current leader

    async def hand_over(self) -> bool:
        """Close partitions that their next leaders have read, and log the new leaders.

        Returns whether there were any. Raises as `SharedMetadataLog.decide`.
        """
        due = self._moves_to_hand_over()
        moving = due[:MAX_MOVES]
        if not moving:
            return False
        if len(moving) < len(due):
            self._wake()
        partitions = (self._replicas.partition_of(id_partition) for id_partition, _ in moving)
        await self._partitions.resign(
            [partition for partition in partitions if partition is not None]
        )
        # No node serves them until that is logged.
        new_leaders = partial(self._handover_records, moving)
        has_more = await self._metadata.decide(new_leaders, reads=False)
        while has_more:
            has_more = await self._metadata.decide(new_leaders)
        return True

    def _moves_to_hand_over(self) -> list[tuple[TopicIdPartition, int]]:
        """Planned moves that are ready, or have waited for `READY_TIMEOUT_MS`."""
        cluster, now = self._metadata.state.cluster, self._clock.now()
        self._planned = {
            move: self._planned.get(move, now)
            for move in cluster.moves.items()
            if cluster.leader(move[0]).node == self._node_id
        }
        return [
            move
            for move, since in self._planned.items()
            if move[0] in cluster.ready or now - since >= READY_TIMEOUT_MS
        ]

    def _handover_records(
        self, moving: Iterable[tuple[TopicIdPartition, int]]
    ) -> Sequence[MetadataRecord]:
        """Records of the new leaders of these partitions."""
        cluster = self._metadata.state.cluster
        return [
            LeaderChanged(id_partition, Leader(to, cluster.leaders[id_partition].epoch + 1))
            for id_partition, to in moving
            if cluster.moves.get(id_partition) == to
            and cluster.leader(id_partition).node == self._node_id
        ]
