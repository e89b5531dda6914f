"""A partition changes its owner at every await of an exactly-once block.

What the block does is counted: each time that its task, or a task that it starts, suspends. At one
point after the other another member joins while the owner's producer waits for the broker. Or the
owner is removed from the group and suspended until the other member has committed the batch: it
wakes as a zombie, in the middle of its transaction. Or another process takes over its transactional
id, while it waits for responses that are lost. A reader of committed records gets each result once
and in order, the committed offsets are behind the last records, and no transaction has the wrong
outcome.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import Any

import pytest

from client.group.test_exactly_once import ended, run, totals
from client.points import Points, Watch
from kohort.client import (
    Admin,
    BrokerUnreachableError,
    ClientConfig,
    Cluster,
    Generation,
    GenerationEndedError,
    KohortError,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionError,
    TransactionOutcome,
)
from kohort.client.net import Connection
from kohort.server.broker import Broker
from kohort.server.config.config import Config

PARTITIONS = 2
"""With one, a sticky assignor moves none to a member that joins."""
PATIENCE_S = 4
"""Less than a session and a drain; how long another member may take to commit the batch."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"], "heartbeat_interval_ms": 500},
    "cooperative": {"assignors": ["cooperative-sticky"], "heartbeat_interval_ms": 500},
    "consumer": {"protocol": "consumer"},
}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """One whose groups change quickly."""
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    async with Broker(Config(settings)) as running:
        yield running


class Suspension:
    """Holds up the requests and responses of some clients, and loses them or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clients: tuple[str, ...] = ()
        self._over, self._loses = asyncio.Event(), False
        submit = Connection.submit

        async def held_up(connection: Connection, wire: Any, *body: Any, **options: Any) -> Any:
            await self._wait(connection)
            response = await submit(connection, wire, *body, **options)
            await self._wait(connection)
            return response

        monkeypatch.setattr(Connection, "submit", held_up)

    async def _wait(self, connection: Connection) -> None:
        if connection._config.client_id in self._clients:
            await self._over.wait()
            if self._loses:
                raise connection.fail(BrokerUnreachableError("the broker is away"))

    def begin(self, *clients: str, loses: bool = False) -> None:
        self._clients, self._over, self._loses = clients, asyncio.Event(), loses

    def end(self) -> None:
        self._clients = ()
        self._over.set()


class Shop:
    """Two members that process one record after the other, of which the first try is disturbed."""

    def __init__(
        self, config: ClientConfig, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, protocol: str
    ) -> None:
        self.fed: list[bytes] = []
        self.outcomes: list[tuple[bytes, TransactionOutcome | None]] = []
        """Of each transaction that has ended, by its record."""
        self._config, self._options = config, PROTOCOLS[protocol]
        self._admin = Admin(cluster)
        self._watch = Watch(asyncio.get_running_loop())
        self._suspension = Suspension(monkeypatch)
        self._points: Points | None = None
        """Of the next try."""
        self._disturbance: asyncio.Task[None] | None = None
        self._disturb: Callable[[str, str], Coroutine[Any, Any, None]] = {}.__getitem__
        self._members: dict[str, asyncio.Task[None]] = {}

    async def run(self, how: str) -> None:
        """Until a try has fewer points than it should be disturbed at."""
        self._disturb = {
            "another joins": self._joins,
            "is a zombie": self._is_a_zombie,
            "is taken over": self._is_taken_over,
        }[how]
        for name in ("a", "b") if how == "is a zombie" else ("b",):
            self._start(name)
        points = Points(1)
        while points.is_struck or len(self.fed) % PARTITIONS or not self.fed:
            points = self._points = Points(len(self.fed) // PARTITIONS + 1)
            await self._feed(len(self.fed) % PARTITIONS)
            await self._goes_on(self._until_committed(PATIENCE_S * 30))
            if self._disturbance is not None:
                await self._goes_on(self._disturbance)
        await ended(*self._members.values())

    async def committed(self) -> int:
        """Records before the group's offsets."""
        found = (await self._admin.committed(["totals"]))["totals"]
        assert not isinstance(found, KohortError)
        return sum(each.offset for each in found.values())

    async def _feed(self, partition: int) -> None:
        self.fed.append(b"%d" % len(self.fed))
        async with Producer(self._config) as feeder:
            await feeder.send_and_wait("orders", self.fed[-1], partition=partition)

    async def _until_committed(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while await self.committed() < len(self.fed):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _goes_on(self, work: Awaitable[None]) -> None:
        """Wait for it, unless a member ends before."""
        task = asyncio.ensure_future(work)
        members = self._members.values()
        await asyncio.wait([task, *members], return_when=asyncio.FIRST_COMPLETED)
        for each in members:
            if each.done() and not each.cancelled():
                each.result()
        await task

    def _start(self, name: str) -> None:
        self._members[name] = asyncio.create_task(self._member(name))

    async def _member(self, name: str) -> None:
        config = replace(self._config, client_id=f"{name}-producer")
        while True:  # who is fenced begins anew
            try:
                async with Producer(
                    config, transactional_id=f"totals-{name}", linger_ms=0
                ) as producer:
                    await run(config, name, self._work, producer, name, **self._options)
            except* ProducerFencedError:
                pass

    async def _work(
        self, generation: Generation, partition: TopicPartition, producer: Producer, name: str
    ) -> None:
        async for batch in generation.records(partition):
            scope = generation.exactly_once(producer, batch)
            points, self._points = self._points, None
            try:
                if points is None:
                    await self._block(scope, batch, producer)
                    continue
                points.strike = lambda: self._strike(name, generation.member_id)
                with self._watch(points):
                    await self._watch.counted(self._block(scope, batch, producer))
            except ProducerFencedError:
                raise
            except (TransactionError, GenerationEndedError):
                pass
            finally:
                self.outcomes += [(record.value or b"", scope.outcome) for record in batch]

    async def _block(self, scope: Any, batch: Any, producer: Producer) -> None:
        async with scope:
            for record in batch:
                await producer.send("totals", record.value)

    def _strike(self, name: str, member_id: str) -> None:
        def begin() -> None:
            self._disturbance = asyncio.create_task(self._disturb(name, member_id))

        asyncio.get_running_loop().call_soon(begin, context=Context())  # it is not watched

    async def _joins(self, _name: str, _member_id: str) -> None:
        """The new member gets a partition, or both, when the block of the owner is over."""
        self._suspension.begin("b-producer")
        self._start("a")
        await asyncio.sleep(PATIENCE_S)
        self._suspension.end()
        with suppress(TimeoutError):
            await self._until_committed(PATIENCE_S)
        await asyncio.sleep(PATIENCE_S)
        await ended(self._members["a"])

    async def _is_a_zombie(self, name: str, member_id: str) -> None:
        self._suspension.begin(name, f"{name}-producer")
        await self._admin.remove_members("totals", members=[member_id])
        with suppress(TimeoutError):  # its offsets may be part of the transaction already
            await self._until_committed(PATIENCE_S)
        self._suspension.end()
        await asyncio.sleep(PATIENCE_S)  # it joins again

    async def _is_taken_over(self, name: str, _member_id: str) -> None:
        self._suspension.begin(f"{name}-producer", loses=True)
        await asyncio.sleep(1)  # what it has sent is executed
        async with Producer(self._config, transactional_id=f"totals-{name}"):
            self._suspension.end()
            await asyncio.sleep(PATIENCE_S)


@pytest.mark.parametrize("how", ["another joins", "is a zombie", "is taken over"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_record_counts_once(
    broker: Broker,
    config: ClientConfig,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    how: str,
) -> None:
    broker.controller.topics.create("orders", PARTITIONS)
    broker.controller.topics.create("totals", 1)
    shop = Shop(config, cluster, monkeypatch, protocol)
    await shop.run(how)
    assert len(shop.fed) > 3 * PARTITIONS
    assert await totals(config) == shop.fed
    assert await shop.committed() == len(shop.fed)
    for value in shop.fed:
        outcomes = [outcome for of, outcome in shop.outcomes if of == value]
        assert outcomes.count(TransactionOutcome.COMMITTED) <= 1, (value, outcomes)
        assert {TransactionOutcome.COMMITTED, TransactionOutcome.UNKNOWN} & {*outcomes}, value
