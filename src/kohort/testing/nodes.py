"""Several nodes of one cluster in this process, on clocks that the test moves, without sockets.

    cluster = Nodes()
    one, two = await cluster.start(1), await cluster.start(2)
    await one.controller.topics.create_topics([NewTopic("orders", 6)])
    await cluster.advance(500)                        # every node ticks
    leader = await cluster.leader("orders", 0)
    cluster.nodes[leader.node].log("orders", 0).append(batch, cluster.timestamp())
    cluster.crash(1)
    await cluster.advance(4_000)                      # two leads everything

What the nodes share is in memory, as are the logs. Nothing happens but in calls of the test.
"""

from collections.abc import Callable

from kohort.cluster import Leader
from kohort.log.base import Log
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.server.cluster import LeadershipLoop, NodeSettings
from kohort.server.config import Config
from kohort.server.controller import SharedController, coordinator_topics
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import Topics
from kohort.types import Instant, Timestamp, TopicIdPartition

START = Timestamp(1_700_000_000_000)


class NodeClock:
    """The clocks of a node, which run at a rate of their own."""

    def __init__(self, cluster: "Nodes", rate: float) -> None:
        """`rate` is 1 for a clock that runs as that of the storage."""
        self._cluster = cluster
        self._rate = rate

    def now(self) -> Instant:
        return Instant(int(self._cluster.elapsed_ms * self._rate))

    def timestamp(self) -> Timestamp:
        return Timestamp(START + self.now())


class Node:
    """One node: its topics, and what it leads of them."""

    def __init__(self, cluster: "Nodes", node_id: int, rate: float) -> None:
        self.id = node_id
        self.clock = NodeClock(cluster, rate)
        self.storage = cluster.storage(cluster.shared, node_id)
        self.metadata = SharedMetadataLog(self.storage, self.clock.timestamp)
        self.controller: SharedController
        self.topics: Topics
        self._config = Config({"node.id": node_id, "storage": "memory"} | cluster.settings)
        self._leadership: LeadershipLoop

    async def start(self) -> None:
        """Join the cluster. Raises KohortError if another process has this id."""
        claimed_at = self.clock.now()
        await self.storage.claim()
        await self.metadata.decide(
            lambda: () if self.metadata.state.topics else coordinator_topics(self._config)
        )
        self.controller = SharedController(self.storage.logs, self._config, self.metadata)
        self.topics = self.controller.replicas.topics
        self._leadership = LeadershipLoop(
            self.storage,
            self.metadata,
            self.controller.replicas,
            self.clock,
            NodeSettings(
                rebalance_delay_ms=self._config["cluster.rebalance.delay.ms"],
                drain_timeout_ms=self._config["cluster.drain.timeout.ms"],
            ),
            claimed_at=claimed_at,
        )
        await self.tick()

    async def tick(self) -> None:
        """Do what a node does twice a second, and whenever the cluster has changed."""
        await self._leadership.tick()

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition; of one that this node does not lead, it refuses everything."""
        log = self.topics.log(topic, partition)
        assert log is not None, f"there is no partition {partition} of {topic}"
        return log


class Nodes:
    """The nodes that run, by id."""

    def __init__(
        self,
        *,
        storage: Callable[[MemoryCluster, int], MemoryStorage] = MemoryStorage,
        **settings: object,
    ) -> None:
        """`settings` are those of every node, with underscores for dots.

        `storage` is what a node reaches the others by, which may be slow or fail.
        """
        self.storage = storage
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.elapsed_ms = 0.0
        self.shared = MemoryCluster(self.timestamp)
        self.nodes: dict[int, Node] = {}

    def timestamp(self) -> Timestamp:
        """The clock of the storage."""
        return Timestamp(START + int(self.elapsed_ms))

    async def start(self, node_id: int, *, rate: float = 1.0) -> Node:
        """A new process of a node. Raises KohortError if another one has the id."""
        node = Node(self, node_id, rate)
        await node.start()
        self.nodes[node_id] = node
        return node

    def crash(self, node_id: int) -> None:
        """End a process without a word."""
        self.shared.crash(node_id)
        del self.nodes[node_id]

    async def advance(self, ms: float, *, step_ms: float = 500) -> None:
        """Let time pass, while every node ticks once in `step_ms`."""
        until = self.elapsed_ms + ms
        while self.elapsed_ms < until:
            self.elapsed_ms = min(self.elapsed_ms + step_ms, until)
            for node in tuple(self.nodes.values()):
                await node.tick()

    async def leader(self, topic: str, partition: int) -> Leader:
        """The leader of a partition by all that is logged; its node may be gone."""
        metadata = SharedMetadataLog(MemoryStorage(self.shared, 0), self.timestamp)
        await metadata.read_to_end()
        topic_ids = [record.id for record in metadata.state.topics.values() if record.name == topic]
        assert topic_ids, f"there is no topic {topic}"
        return metadata.state.cluster.leader(TopicIdPartition(topic_ids[0], partition))
