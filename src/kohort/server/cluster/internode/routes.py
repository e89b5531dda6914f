"""Requests of a node to the leaders of partitions and to coordinators, itself or other nodes."""

from collections.abc import Callable

from kohort.runtime.markers import MarkerWriter
from kohort.runtime.transactions import TransactionVerifier
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.group_listing import GroupsElsewhere, RoutedGroups
from kohort.server.cluster.internode.log_offsets import FindLogOffsets, RoutedLogOffsets
from kohort.server.cluster.internode.transactions import (
    NodeConnections,
    RoutedMarkers,
    RoutedVerifier,
)
from kohort.server.cluster.nodes import Nodes
from kohort.server.replicas import Topics


class Routes:
    """Sends requests of node `node_id`. A node alone leads and coordinates everything itself."""

    def __init__(
        self, node_id: int, nodes: Nodes, topics: Topics, connect: Callable[[int], Connect]
    ) -> None:
        """`connect` returns the function that connects to another node."""
        self._node_id = node_id
        self._nodes = nodes
        self._topics = topics
        self._connections = NodeConnections(connect)
        self._log_offsets = RoutedLogOffsets(nodes, topics, connect)
        self._groups = RoutedGroups(connect)

    def markers(self, local: MarkerWriter) -> MarkerWriter:
        """Writer of transaction markers to the partitions of all nodes; `local` to those here."""
        return RoutedMarkers(self._node_id, self._nodes, self._topics, local, self._connections)

    def verifier(self, local: TransactionVerifier) -> TransactionVerifier:
        """Verifier of transactions that any node coordinates; `local` of those here."""
        return RoutedVerifier(self._node_id, self._nodes, local, self._connections)

    @property
    def find_log_offsets(self) -> FindLogOffsets:
        """Lookup of the first and last offsets of logs on all nodes."""
        return self._log_offsets.find

    async def groups_elsewhere(self) -> GroupsElsewhere:
        """Groups that other nodes coordinate."""
        return await self._groups.list(sorted(set(self._nodes.ids) - {self._node_id}))

    def close(self) -> None:
        """Close the connections to other nodes. Idempotent."""
        self._log_offsets.close()
        self._groups.close()
        self._connections.close()
