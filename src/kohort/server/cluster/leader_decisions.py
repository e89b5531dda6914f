"""Decisions of a node on the cluster, as `kohort.cluster.decide` makes them.

Every node decides. The metadata log accepts only decisions that were made on all of its records.
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Final

from kohort.cluster import (
    Leader,
    LeaderChanged,
    NodeRegistered,
    Observed,
    Situation,
    decide,
    situation,
)
from kohort.runtime.clock import Clock
from kohort.server.cluster.registration import Registration
from kohort.server.metadata import MetadataRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import SharedReplicaManager
from kohort.types import Instant

PARTITIONS_PER_MS: Final = 100
"""Divisor of the pause between decisions, as each decision visits all partitions.

The log grows many times a second while thousands of topics are created.
"""


class LeaderDecisions:
    """Decides for one node: whether a decision is due, and its records."""

    def __init__(
        self,
        registration: Registration,
        metadata: SharedMetadataLog,
        replicas: SharedReplicaManager,
        clock: Clock,
        *,
        rebalance_delay_ms: int,
        wake: Callable[[], object],
    ) -> None:
        """`rebalance_delay_ms` is that of `situation`. `wake` is called when a decision is due."""
        self._registration = registration
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock
        self._rebalance_delay_ms = rebalance_delay_ms
        self._wake = wake
        self._no_decision_for: tuple[int, Situation] | None = None
        """End of the metadata log and situation of the nodes where nothing was to be decided."""
        self._decided_at = Instant(0)
        """Time of the last decision that changed nothing."""

    def is_due(self, observed: Observed) -> bool:
        """Whether to decide now; if not, a timer calls `wake`."""
        cluster = self._metadata.state.cluster
        nodes, now = cluster.nodes.values(), self._clock.now()
        is_calm = self._registration.is_logged and not (
            cluster.moves
            or any(node.is_draining or observed.is_gone(node.id, node.session) for node in nodes)
        )
        left_ms = self._decided_at + len(cluster.leaders) // PARTITIONS_PER_MS - now
        if is_calm and left_ms > 0:
            asyncio.get_running_loop().call_later(left_ms / 1_000, self._wake)
            return False
        return True

    def decide(
        self, observed: Observed, observed_nodes: Collection[NodeRegistered]
    ) -> Generator[None, None, Sequence[MetadataRecord]]:
        """The next records, in steps.

        `observed_nodes`: the nodes that were registered when `observed` was seen.
        """
        own = self._registration
        if not own.is_logged:
            return [*self._reclaim_partitions(), own.record(observed.now)]
        cluster = self._metadata.state.cluster
        own.is_draining |= cluster.nodes[own.node_id].is_draining
        newcomers = [node for node in cluster.nodes.values() if node not in observed_nodes]
        observed_now = observed.with_newcomers(newcomers)
        nodes = situation(cluster, observed_now, self._rebalance_delay_ms)
        if own.node_id in nodes.gone:
            return ()  # it renews its lease before it decides on anybody
        inputs = self._metadata.end_offset, nodes
        if inputs == self._no_decision_for:
            return ()
        topics = yield from self._replicas.topic_sizes()
        records = yield from decide(cluster, topics, nodes)
        self._no_decision_for = None if records else inputs
        if not records:
            self._decided_at = self._clock.now()
        return records

    def _reclaim_partitions(self) -> Iterable[LeaderChanged]:
        """New epochs for the partitions that this node led in its previous session.

        Batches of one epoch belong to one session: the storage may have lost the last batches of
        the previous one.
        """
        cluster, node_id = self._metadata.state.cluster, self._registration.node_id
        for id_partition in cluster.led_by(node_id):
            yield LeaderChanged(
                id_partition, Leader(node_id, cluster.leaders[id_partition].epoch + 1)
            )
