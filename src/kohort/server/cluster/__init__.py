"""A server's part in its cluster: which node leads what, and what nodes ask each other.

A server is alone (`OnlyServer`), one of several workers of a machine (`WorkerParts`), or a node on
a shared storage (`SharedNode`). The pure decisions are in `kohort.cluster`.
"""

from kohort.server.cluster.cluster_admin import ClusterAdmin
from kohort.server.cluster.cluster_parts import ClusterParts, OnlyServer
from kohort.server.cluster.group_availability import check_group_availability
from kohort.server.cluster.internode import FindSpans, RemoteController, Span
from kohort.server.cluster.leader_discovery import (
    MOVED,
    NO_LEADERS,
    CurrentLeaders,
    current_leaders,
)
from kohort.server.cluster.node_status import NodeStatus
from kohort.server.cluster.nodes import NO_NODE, Node, Nodes
from kohort.server.cluster.ownership import Ownership
from kohort.server.cluster.shared_node import Shared, SharedNode
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.server.cluster.workers import Worker, WorkerParts, http_socket_of, place_of

__all__ = [
    "MOVED",
    "NO_LEADERS",
    "NO_NODE",
    "ClusterAdmin",
    "ClusterParts",
    "CurrentLeaders",
    "FindSpans",
    "Node",
    "NodeStatus",
    "Nodes",
    "OnlyServer",
    "Ownership",
    "PartitionMarkers",
    "RemoteController",
    "Shared",
    "SharedNode",
    "Span",
    "Worker",
    "WorkerParts",
    "check_group_availability",
    "current_leaders",
    "http_socket_of",
    "place_of",
]
