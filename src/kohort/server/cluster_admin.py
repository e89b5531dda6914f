"""Operator commands on a cluster: list nodes, drain a node, move a partition."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from kohort.cluster import (
    FencedError,
    Liveness,
    NodeRegistered,
    Observed,
    ReassignmentPlanned,
    SharedStorage,
    UnknownOutcomeError,
)
from kohort.errors import KohortError
from kohort.runtime.clock import SystemClock
from kohort.server.metadata import MetadataRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.types import TopicIdPartition

_POLL_INTERVAL_S: Final = 0.2
_RELEASE_TIMEOUT_S: Final = 1.0


class ListedNode(NamedTuple):
    """A registered node, for `kohort nodes list`."""

    node: NodeRegistered
    partitions: int
    """Number of partitions that it leads."""
    lease_left_ms: int
    """Remaining time of its lease; 0 or less: other nodes are about to take its partitions."""


class ClusterAdmin:
    """Reads and changes the metadata log of a cluster. `storage` belongs to no node.

    Methods raise KohortError if the storage has no cluster, OSError and UnknownOutcomeError.
    """

    def __init__(self, storage: SharedStorage) -> None:
        self._storage = storage
        self._metadata = SharedMetadataLog(storage, SystemClock().timestamp)
        self._expired: frozenset[int] = frozenset()
        """Nodes whose processes have ended and that no other node has fenced yet."""
        self.has_changed = False
        """Whether the change is logged: the nodes complete it without this process."""

    async def nodes(self) -> Sequence[ListedNode]:
        """All nodes, in order."""
        observed = await self._read_cluster()
        cluster = self._metadata.state.cluster
        expired = Liveness(-1, observed.now)
        return [
            ListedNode(
                node,
                sum(1 for _ in cluster.led_by(number)),
                observed.nodes.get(number, expired).lease_until - observed.now,
            )
            for number, node in sorted(cluster.nodes.items())
        ]

    async def drain(self, node: int) -> None:
        """Move all partitions of a node to other nodes; return when none is left.

        The node gets no partitions until its next start. Raises KohortError if it is restarted
        before the end.
        """
        await self._read_cluster()
        self._ensure_other_nodes(node)
        await self._change(partial(self._drain_records, node))
        cluster = self._metadata.state.cluster
        while any(True for _ in cluster.led_by(node)):
            await self._poll_log()
            if node in cluster.nodes and not cluster.nodes[node].is_draining:
                raise KohortError(f"node {node} was started again, and is not drained any more")

    async def move(self, topic: str, partition: int, to: int) -> None:
        """Move a partition; return when node `to` leads it. Raises KohortError if cancelled."""
        await self._read_cluster()
        id_partition = self._id_partition(topic, partition)
        await self._change(partial(self._planned, id_partition, to))
        cluster = self._metadata.state.cluster
        while cluster.moves.get(id_partition) == to:
            await self._poll_log()
        if cluster.leader(id_partition).node != to:
            raise KohortError(f"{topic}-{partition}: the move to node {to} was called off")

    async def _read_cluster(self) -> Observed:
        await self._metadata.read_to_end()
        nodes = self._metadata.state.cluster.nodes
        if not nodes:
            raise KohortError(
                "no node of a cluster serves from this database: start one, or name the schema of "
                "the cluster by the search_path of the URL"
            )
        observed = await self._storage.observe()
        self._expired = frozenset(
            node.id for node in nodes.values() if observed.is_gone(node.id, node.session)
        )
        return observed

    async def _change(self, decide: Callable[[], Sequence[MetadataRecord]]) -> None:
        """Append the records of `decide` until it returns none, as nodes append concurrently."""
        await self._storage.claim()
        try:
            while not await self._append_decision(decide):
                pass
            self.has_changed = True
        except FencedError as error:
            raise KohortError("another operator changes the cluster now: try again") from error
        finally:
            with suppress(OSError, UnknownOutcomeError):  # the end of the connection does as well
                async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                    await self._storage.release()

    async def _append_decision(self, decide: Callable[[], Sequence[MetadataRecord]]) -> bool:
        """Append the records of `decide`; True if there are none. Tolerates a short outage."""
        try:
            return not await self._metadata.decide(decide)
        except UnknownOutcomeError:
            await asyncio.sleep(_POLL_INTERVAL_S)
            return False

    async def _poll_log(self) -> None:
        """Wait, then read new records. Tolerates a short outage of the database."""
        await asyncio.sleep(_POLL_INTERVAL_S)
        with suppress(OSError, UnknownOutcomeError):
            await self._metadata.read_to_end()

    def _node(self, number: int) -> NodeRegistered:
        node = self._metadata.state.cluster.nodes.get(number)
        if node is None:
            node_ids = ", ".join(map(str, sorted(self._metadata.state.cluster.nodes)))
            raise KohortError(f"there is no node {number}, only {node_ids}")
        return node

    def _ensure_other_nodes(self, node: int) -> None:
        self._node(node)
        nodes = self._metadata.state.cluster.nodes.values()
        if all(other.id in (node, *self._expired) or other.is_draining for other in nodes):
            raise KohortError(
                f"no other node takes what node {node} leads: start one, or start one again that "
                "was drained"
            )

    def _drain_records(self, node: int) -> Sequence[MetadataRecord]:
        registered = self._node(node)
        if registered.is_draining:
            return []
        self._ensure_other_nodes(node)  # another operator may have drained them
        return [replace(registered, is_draining=True)]

    def _id_partition(self, topic: str, partition: int) -> TopicIdPartition:
        for topic_id, record in self._metadata.state.topics.items():
            if record.name == topic:
                if 0 <= partition < record.partitions:
                    return TopicIdPartition(topic_id, partition)
                last = record.partitions - 1
                raise KohortError(f"{topic} has no partition {partition}, only 0 to {last}")
        raise KohortError(f"there is no topic {topic}")

    def _planned(self, id_partition: TopicIdPartition, to: int) -> Sequence[MetadataRecord]:
        if self._node(to).is_draining:
            raise KohortError(f"node {to} is drained, and leads nothing until it is started again")
        if to in self._expired:
            raise KohortError(f"node {to} is gone: start it, or name another one")
        cluster = self._metadata.state.cluster
        planned = None if cluster.leader(id_partition).node == to else to
        if cluster.moves.get(id_partition) == planned:
            return []
        return [ReassignmentPlanned(id_partition, planned)]
