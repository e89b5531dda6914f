"""Local node: a server with logs of its own, in a data directory or in memory."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from kohort.cluster import worker_of
from kohort.log.base import LogDirectory
from kohort.log.leader_epochs import MAX_LEADER_EPOCH
from kohort.runtime.clock import Clock
from kohort.server.cluster.cluster_role import Participant
from kohort.server.cluster.follower import Follower
from kohort.server.cluster.internode import Connect, RemoteController, Routes, by_socket
from kohort.server.cluster.nodes import LocalNodes, Nodes
from kohort.server.cluster.workers import Worker
from kohort.server.config import Config, shows_restarts
from kohort.server.controller import Controller, open_controller
from kohort.types import Timestamp, TopicPartition

_EPOCH_ZERO_S: Final = 1_750_000_000


class LocalNode:
    """The `ClusterRole` of a server alone, which is worker 0 of one, or of one of many workers.

    Worker 0 is the controller: it has the metadata log, and knows the directories of all workers.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        worker: Worker | None,
        logs: Callable[[], LogDirectory] | None = None,
    ) -> None:
        """`worker` is None for a server alone. `logs` opens its logs in place of `storage`."""
        self._config = config
        self._clock = clock
        self._worker = worker
        self._logs = logs
        self._index, self._count = (0, 1) if worker is None else (worker.index, worker.count)
        self._node_id: int = config["node.id"]
        self.node_socket = None if worker is None else worker.socket_of(worker.index)
        self.http_socket = None if worker is None else worker.http_socket
        self._follower: Follower | None = None
        self.controller: RemoteController | None = None
        if self._index:
            self._follower = Follower(self._node_id, self._connect(self._node_id - self._index))
            self.controller = self._follower.controller
        self.participant: Participant | None = self._follower
        self.nodes: Nodes
        self.routes: Routes

    def _connect(self, node_id: int) -> Connect:
        assert self._worker is not None, "a server alone leads and coordinates everything"
        return by_socket(self._worker.socket_of(self._index + node_id - self._node_id))

    def _leads(self, partition: TopicPartition) -> bool:
        return worker_of(partition, self._count) == self._index

    async def open_logs(self, opened: AsyncExitStack) -> LogDirectory:
        """The logs of this worker, once it knows the metadata log of worker 0.

        `opened` closes the connections to it. Raises OSError, KohortError.
        """
        if self._logs is not None:
            return self._logs()
        if self._follower is None:
            return open_directory(self._config, None, self._count, self._first_epoch())
        opened.callback(self._follower.close)
        await self._follower.read_all()
        return open_directory(self._config, self._follower.cluster_id)

    def _first_epoch(self) -> int:
        """Leader epoch of logs in memory; workers would have to agree on one."""
        is_visible = shows_restarts(self._config) and self._count == 1
        return _epoch_of_start(self._clock.timestamp()) if is_visible else 0

    def open_controller(self, logs: LogDirectory) -> Controller:
        """The topics and the logs of this worker. Blocks on the disk; raises as `ClusterRole`."""
        if self._follower is None:
            controller = open_controller(logs, self._config, self._clock.timestamp, self._leads)
        else:
            controller = self._follower.open_controller(logs, self._config, self._leads)
        topics = controller.replicas.topics
        self.nodes = LocalNodes(
            topics,
            controller.image,
            count=self._count,
            index=self._index,
            first_id=self._node_id - self._index,
            rack=self._config["broker.rack"],
        )
        self.routes = Routes(self._node_id, self.nodes, topics, self._connect)
        return controller


def open_directory(
    config: Config, cluster_id: str | None = None, workers: int = 1, leader_epoch: int = 0
) -> LogDirectory:
    """The logs of a server that shares no storage, on disk or in memory.

    Without `cluster_id`, new ones are of a new cluster. A directory on disk has to be spread over
    so many workers. Logs in memory are led in `leader_epoch`.

    Raises OSError, and KohortError if another server uses the directory.
    """
    if config["storage"] == "memory":
        from kohort.log.memory import MemoryDirectory

        return MemoryDirectory(cluster_id, leader_epoch)
    from kohort.log.local import LocalDirectory

    return LocalDirectory(
        config["log.dir"],
        durability=config["durability"],
        stray_retention_ms=config["stray.retention.ms"],
        recovery_threads=config["num.recovery.threads.per.data.dir"],
        cluster_id=cluster_id,
        workers=workers,
    )


def _epoch_of_start(now: Timestamp) -> int:
    """Leader epoch of logs in memory by a server that starts `now`: higher than any before.

    Clients notice by it that their positions are those of an earlier server (KIP-320).
    """
    return min(max(now // 1_000 - _EPOCH_ZERO_S, 0), MAX_LEADER_EPOCH)
