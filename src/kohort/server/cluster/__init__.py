"""A server's part in its cluster: leaders, and requests between nodes.

A server has logs of its own (`LocalNode`), alone or as one of several workers of a machine, or is a
node on a shared storage (`SharedNode`). The pure decisions are in `kohort.cluster`.
"""

from kohort.server.cluster.cluster_role import ClusterRole
from kohort.server.cluster.group_availability import check_group_availability
from kohort.server.cluster.internode import FindLogOffsets, LogOffsets, RemoteController
from kohort.server.cluster.leader_discovery import (
    MOVED,
    NO_LEADERS,
    CurrentLeaders,
    current_leaders,
)
from kohort.server.cluster.leadership_loop import LeadershipLoop
from kohort.server.cluster.local_node import LocalNode, open_directory
from kohort.server.cluster.node_status import NodeStatus
from kohort.server.cluster.nodes import NO_NODE, Node, Nodes
from kohort.server.cluster.registration import NodeSettings
from kohort.server.cluster.shared_node import ClusterBackend, SharedNode
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.server.cluster.workers import Worker, http_socket_of, worker_index_of

__all__ = [
    "MOVED",
    "NO_LEADERS",
    "NO_NODE",
    "ClusterBackend",
    "ClusterRole",
    "CurrentLeaders",
    "FindLogOffsets",
    "LeadershipLoop",
    "LocalNode",
    "LogOffsets",
    "Node",
    "NodeSettings",
    "NodeStatus",
    "Nodes",
    "PartitionMarkers",
    "RemoteController",
    "SharedNode",
    "Worker",
    "check_group_availability",
    "current_leaders",
    "http_socket_of",
    "open_directory",
    "worker_index_of",
]
