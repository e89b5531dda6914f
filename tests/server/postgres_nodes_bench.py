"""Nodes on one PostgreSQL, in the process of a test."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kohort.client import ClientConfig
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.security import PLAINTEXT, Security
from kohort.server.broker import Broker
from kohort.server.config import Config

PARTITIONS = 6
WITHIN_S = 60
"""Time that a machine with other work may take."""
SETTINGS = {
    "cluster.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


def config(database: str, node: int, **settings: str) -> Config:
    own = {"listeners": "127.0.0.1:0", "storage": database, "node.id": str(node)}
    return Config({**SETTINGS, **own, **settings})


class Nodes:
    """Nodes in this process."""

    def __init__(
        self,
        database: str,
        settings: Mapping[str, str] | None = None,
        security: Security = PLAINTEXT,
        sockets: Path | None = None,
    ) -> None:
        """`settings` of all nodes, and `security` of clients at their first listeners.

        `sockets` is the directory of each node's `local.socket`.
        """
        self._database = database
        self.settings = dict(settings or {})
        self.security = security
        self._sockets = sockets
        self.brokers: dict[int, Broker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in tuple(self.brokers):
            await self.stop(number)

    async def start(self, *numbers: int) -> None:
        for number in numbers:
            own = {} if self._sockets is None else {"local.socket": f"{self._sockets}/{number}"}
            self.brokers[number] = Broker(config(self._database, number, **self.settings, **own))
            await self.brokers[number].start()

    async def stop(self, number: int) -> None:
        await self.brokers.pop(number).close()

    @property
    def client(self) -> ClientConfig:
        bootstrap = ",".join(str(each.address) for each in self.brokers.values())
        return ClientConfig(bootstrap=bootstrap, security=self.security)

    def leaders(self, topic: str = "orders") -> set[int]:
        """Who leads its partitions, as far as all nodes agree and have taken them."""
        found: set[int] = set()
        for broker in self.brokers.values():
            known = broker.topics.get(topic)
            if known is None:
                return set()
            for partition, (node, epoch) in enumerate(broker.nodes.leaders(known)):
                leader = self.brokers.get(node)
                log = None if leader is None else leader.topics.log(topic, partition)
                if log is None or log.leader_epoch != epoch:
                    return set()
                found.add(node)
        return found

    async def led_by(self, *numbers: int) -> None:
        async with asyncio.timeout(WITHIN_S):
            while self.leaders() != set(numbers):  # noqa: ASYNC110 - other nodes decide
                await asyncio.sleep(0.02)

    async def create(self) -> None:
        await create(self.client)


async def create(client: ClientConfig) -> None:
    async with Cluster(client) as cluster:
        await Admin(cluster).create_topic("orders", partitions=PARTITIONS)
