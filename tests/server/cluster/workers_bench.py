"""Several workers of one cluster in this process, on free ports."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from kohort.server.broker import Broker
from kohort.server.cluster.workers import Worker
from kohort.server.config import Config
from peers.kafka import free_port
from server.net.bench import Peer

COUNT = 3


class Crew:
    """Workers 0 to `count` - 1, in memory unless `storage` says otherwise."""

    def __init__(self, count: int = COUNT, is_observed: bool = False, **settings: Any) -> None:
        self.count = count
        self._is_observed = is_observed
        self.port = free_port(count - 1)
        self.brokers: dict[int, Broker] = {}
        self._stored: dict[int, Path] = {}
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        # A short path: those of Unix sockets have a hundred bytes.
        self._sockets = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        for index in range(self.count):
            await self.start(index)
        return self

    async def __aexit__(self, *_: object) -> None:
        for index in reversed(range(self.count)):
            await self.stop(index)
        await self._stack.aclose()

    async def start(self, index: int) -> Broker:
        config = {
            "listeners": f"127.0.0.1:{self.port + index}",
            "storage": "memory",
            "node.id": index,
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 6,
            "transaction.state.log.num.partitions": 6,
        }
        if index in self._stored:
            config |= {"storage": "local", "log.dir": str(self._stored[index])}
        broker = Broker(
            Config(config | self._settings),
            worker=Worker(
                index=index, count=self.count, sockets=self._sockets, is_observed=self._is_observed
            ),
        )
        await broker.start()
        self.brokers[index] = broker
        return broker

    def store(self, index: int, directory: Path) -> None:
        """Have the worker keep its logs in a directory from its next start on."""
        self._stored[index] = directory

    async def stop(self, index: int) -> None:
        if index in self.brokers:
            await self.brokers.pop(index).close()

    async def hang(self, index: int) -> None:
        """Have a worker be there, and respond to no other worker."""
        await self.stop(index)
        path = self.socket_of(index)
        hung = await asyncio.start_unix_server(lambda reader, _: reader.read(), path)
        self._stack.callback(hung.close)

    def socket_of(self, index: int) -> str:
        """The path by which other workers reach that one."""
        return Worker(index=index, count=self.count, sockets=self._sockets).socket_of(index)

    async def peer(self, index: int) -> Peer:
        """A client of that worker."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port + index))
        self._stack.callback(peer.leave)
        return peer

    @property
    def address(self) -> str:
        """That of the last worker, as `bootstrap.servers`."""
        return f"127.0.0.1:{self.port + self.count - 1}"
