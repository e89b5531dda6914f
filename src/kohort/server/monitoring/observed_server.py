"""The parts of a server that monitoring reads."""

from collections.abc import Callable
from dataclasses import dataclass

from kohort.log.problems import Problems
from kohort.runtime.groups import Groups
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.authorization import FindAccess
from kohort.server.cluster import ClusterRole, NodeStatus, SharedNode
from kohort.server.config import Config
from kohort.server.net import ListenerStatistics
from kohort.server.replicas import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedServer:
    """One server, whose storage is open."""

    config: Config
    cluster_id: str
    topics: Topics
    groups: Groups
    transactions: TransactionCoordinator
    problems: Problems
    """Current problems of logs."""
    traffic: Callable[[], ListenerStatistics]
    find_access: FindAccess
    """Permissions of the principal of the HTTP port."""
    cluster: ClusterRole

    @property
    def node_id(self) -> int:
        node_id: int = self.config["node.id"]
        return node_id

    @property
    def shared_node(self) -> SharedNode | None:
        """The node on a storage that nodes share; None: the server has logs of its own."""
        return self.cluster if isinstance(self.cluster, SharedNode) else None

    @property
    def status(self) -> NodeStatus | None:
        """Current status of `shared_node`, if there is one."""
        node = self.shared_node
        return None if node is None else node.status()
