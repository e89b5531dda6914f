"""Several nodes of one cluster in this process, which share memory."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from kohort.cluster import Leader, Observed, ReassignmentPlanned
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage, SharedMemoryDirectory
from kohort.log.standby import Source, StandbyLog
from kohort.runtime.clock import SystemClock
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.metadata_log import SharedMetadataLog
from kohort.types import Instant, Timestamp, TopicIdPartition, TopicPartition
from server.net.bench import Peer


class SharedCluster:
    """Nodes 1 to `count`."""

    def __init__(self, count: int = 3, **settings: Any) -> None:
        self.count = count
        self.clock = MovableClock()
        self.shared = MemoryCluster(self.clock.timestamp)
        self.storages: dict[int, FailingStorage] = {}
        self.brokers: dict[int, Broker] = {}
        self._ports: dict[int, int] = {}
        """A node that is started again has the same one."""
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._sockets = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        for node in range(1, self.count + 1):
            await self.start(node)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in tuple(self.brokers):
            await self.stop(node)
        await self._stack.aclose()

    async def start(self, node: int) -> Broker:
        config = {
            "listeners": f"127.0.0.1:{self._ports.get(node, 0)}",
            "storage": "memory",
            "node.id": node,
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 6,
            "transaction.state.log.num.partitions": 6,
        }
        shared = MemoryNode(self.shared, node)
        self.storages[node] = shared.storage
        broker = Broker(
            Config(config | self._settings),
            clock=self.clock,
            shared=shared,
            sockets=self._sockets,
        )
        await broker.start()
        self.brokers[node] = broker
        self._ports[node] = broker.address.port
        return broker

    async def stop(self, node: int) -> None:
        await self.brokers.pop(node).close()

    async def peer(self, node: int) -> Peer:
        """A client of that node."""
        address = self.brokers[node].address
        peer = Peer(*await asyncio.open_connection(*address))
        self._stack.callback(peer.leave)
        return peer

    @property
    def address(self) -> str:
        """Those of all nodes, as `bootstrap.servers`."""
        return ",".join(str(broker.address) for broker in self.brokers.values())

    async def plan_move(self, place: TopicIdPartition, to: int) -> SharedMetadataLog:
        """Have a partition moved; the metadata that tells when it is there."""
        metadata = SharedMetadataLog(self.storages[to], self.clock.timestamp)
        await metadata.decide(lambda: [ReassignmentPlanned(place, to)])
        return metadata

    async def move(self, place: TopicIdPartition, to: int) -> None:
        """Have a partition moved, and wait until it is there."""
        metadata = await self.plan_move(place, to)
        async with asyncio.timeout(60):
            while metadata.state.cluster.leader(place).node != to:
                await self.storages[to].wait_beyond(metadata.end_offset)
                await metadata.read_to_end()

    async def leaders(self, topic: str) -> list[Leader]:
        """The leaders of a topic's partitions, once all nodes agree on them and lead them."""
        async with asyncio.timeout(60):
            while True:
                found = [self._leaders(broker, topic) for broker in self.brokers.values()]
                if found[0] and found == [found[0]] * len(found) and self._serve(topic, found[0]):
                    return found[0]
                await asyncio.sleep(0.005)

    def _leaders(self, broker: Broker, topic: str) -> list[Leader]:
        known = broker.topics.get(topic)
        return [] if known is None else list(broker.nodes.leaders(known))

    def _serve(self, topic: str, leaders: list[Leader]) -> bool:
        return all(
            leader.node in self.brokers
            and self.brokers[leader.node].topics.log(topic, index).leader_epoch == leader.epoch
            for index, leader in enumerate(leaders)
        )

    def place(self, topic: str, partition: int = 0) -> TopicIdPartition:
        known = next(iter(self.brokers.values())).topics.get(topic)
        assert known is not None
        return TopicIdPartition(known.id, partition)


class SlowLogs(SharedMemoryDirectory):
    """Logs that a standby reads on only while `is_readable` is set."""

    def __init__(self, shared: MemoryCluster) -> None:
        super().__init__(shared)
        self.is_readable = asyncio.Event()
        self.is_readable.set()

    def stand_by(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> StandbyLog:
        standby = super().stand_by(topic_partition, topic_id, config)
        standby.source = SlowSource(standby.source, self.is_readable)
        return standby


class SlowSource:
    """A `Source` that is read only while an event is set."""

    def __init__(self, source: Source, is_readable: asyncio.Event) -> None:
        self._source = source
        self._is_readable = is_readable

    async def checkpoint(self) -> Checkpoint:
        return await self._source.checkpoint()

    async def read_on(self, offset: int) -> bytes:
        await self._is_readable.wait()
        return await self._source.read_on(offset)


class FailingStorage(MemoryStorage):
    """A storage that fails while it has a `failure`, and is as slow as its `gate` has it."""

    logs: SlowLogs
    failure: Exception | None = None
    gate: asyncio.Semaphore | None = None
    """Lets those through who have observed the nodes."""
    observations = 0
    """How many were begun."""
    renewals = 0

    def __init__(self, shared: MemoryCluster, node_id: int) -> None:
        super().__init__(shared, node_id)
        self.logs = SlowLogs(shared)

    async def observe(self) -> Observed:
        observed = await super().observe()
        self.observations += 1
        if self.gate is not None:
            await self.gate.acquire()
        return observed

    async def renew(self) -> None:
        self.renewals += 1
        if self.failure is not None:
            raise self.failure
        await super().renew()


class MemoryNode:
    """A `Shared` of memory."""

    def __init__(self, shared: MemoryCluster, node: int) -> None:
        self.storage = FailingStorage(shared, node)
        self.logs = self.storage.logs

    async def open(self) -> None:
        """Memory is there."""

    async def close(self) -> None:
        """Nothing is connected."""


class MovableClock(SystemClock):
    """The clocks of the machine, and what a test has set them ahead."""

    ahead_ms = 0

    def now(self) -> Instant:
        return Instant(super().now() + self.ahead_ms)

    def timestamp(self) -> Timestamp:
        return Timestamp(super().timestamp() + self.ahead_ms)
