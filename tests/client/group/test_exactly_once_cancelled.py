"""A cancellation, or a time limit, at every await of an exactly-once block.

What the block does is counted: each time that its task, or a task that it starts, suspends. One
batch after the other is then disturbed at the next of these points, and the application goes on as
docs/client.md says. Meanwhile the server answers, or a request or its response is lost, late, or
takes the connection with it. A reader of committed records gets each result once and in order, and
the committed offset is behind the last record.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import pytest

from client.group.test_exactly_once import during, ended, run, totals
from client.points import Points, Watch
from kohort.client import (
    Admin,
    BrokerUnreachableError,
    ClientConfig,
    Cluster,
    Generation,
    KohortError,
    Producer,
    TopicPartition,
    TransactionError,
    TransactionOutcome,
)
from kohort.client.net import Connection
from kohort.server.broker import Broker

T = TypeVar("T")

ORDERS = TopicPartition("orders", 0)
REQUEST_TIMEOUT_S = 5
"""That of the fixture `config`."""
NEVER = 1_000_000
STUCK_S = 300
"""More than any batch takes: requests are repeated for 120 s."""
APIS = ("produce", "add_offsets_to_txn", "txn_offset_commit", "end_txn")


class Faults:
    """Disturbs the first request of an API after each `arm`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: str, how: str) -> None:
        self._armed = False
        self._is_cold = how == "new connections"
        self._connections: set[Connection] = set()
        submit = Connection.submit

        async def faulty(connection: Connection, wire: Any, *body: Any, **options: Any) -> Any:
            if wire.api in APIS:
                self._connections.add(connection)
            is_first = wire.api == api and self._armed
            if is_first:
                self._armed = False
            if is_first and how == "lost request":
                raise connection.fail(BrokerUnreachableError("the broker is dead"))
            if is_first and how == "lost response":
                asyncio.get_running_loop().call_later(
                    0.01, connection.fail, BrokerUnreachableError("the broker died")
                )
                await submit(connection, wire, *body, **options)
                await asyncio.sleep(1)  # the connection is gone before
                raise BrokerUnreachableError("the broker died")
            response = await submit(connection, wire, *body, **options)
            if is_first and how == "late response":
                await asyncio.sleep(0.5)
            if is_first and how == "stalled":
                await asyncio.sleep(REQUEST_TIMEOUT_S)
                raise connection.fail(BrokerUnreachableError("no response came in time"))
            return response

        monkeypatch.setattr(Connection, "submit", faulty)

    def arm(self) -> None:
        self._armed = True
        while self._is_cold and self._connections:
            self._connections.pop().fail(BrokerUnreachableError("the broker has restarted"))


async def by_cancel(watch: Watch, points: Points, work: Coroutine[Any, Any, None]) -> None:
    with watch(points):
        task = asyncio.get_running_loop().create_task(work)
        points.strike = task.cancel
        await asyncio.wait([task])
        with suppress(asyncio.CancelledError):
            task.result()


async def by_time_limit(watch: Watch, points: Points, work: Coroutine[Any, Any, None]) -> None:
    now = asyncio.get_running_loop().time
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            points.strike = lambda: limit.reschedule(now())
            with watch(points):
                await watch.counted(work)


async def by_anyio(watch: Watch, points: Points, work: Coroutine[Any, Any, None]) -> None:
    with anyio.CancelScope() as scope, watch(points):
        points.strike = scope.cancel
        await watch.counted(work)


STRIKES = {"cancel": by_cancel, "time limit": by_time_limit, "anyio": by_anyio}
FAULTS = [
    ("none", "answers"),
    ("none", "new connections"),
    *(
        (api, how)
        for api in APIS
        for how in ("lost request", "lost response", "late response", "stalled")
    ),
]


@pytest.fixture(autouse=True)
async def topics(broker: Broker) -> None:
    broker.controller.topics.create("orders", 1)
    broker.controller.topics.create("totals", 1)


@pytest.mark.parametrize(
    ("strikes_by", "max_block_ms"),
    [("cancel", 60_000), ("time limit", 2_000), ("anyio", 2_000)],
)
@pytest.mark.parametrize(("api", "how"), FAULTS)
async def test_each_record_counts_once(
    config: ClientConfig,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    how: str,
    strikes_by: str,
    max_block_ms: int,
) -> None:
    if api == "add_offsets_to_txn":  # the first protocol
        monkeypatch.setattr(Connection, "feature", lambda _self, _name: 0)
    faults, watch = Faults(monkeypatch, api, how), Watch(asyncio.get_running_loop())
    done = asyncio.Event()
    fed: list[bytes] = []
    attempts = 0

    async def feed() -> None:
        fed.append(b"%d" % len(fed))
        async with Producer(config) as feeder:
            await feeder.send_and_wait("orders", fed[-1])

    async def block(scope: Any, batch: Any, producer: Producer) -> None:
        async with scope:
            for record in batch:
                await producer.send("totals", record.value)

    async def other(producer: Producer) -> None:
        """Another task with a transaction of that producer."""
        with suppress(TransactionError):
            async with producer.transaction(wait=True):
                await asyncio.sleep(0.01)

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        nonlocal attempts
        is_probing = True
        async for batch in generation.records(partition):
            limit.reschedule(asyncio.get_running_loop().time() + STUCK_S)
            scope = generation.exactly_once(producer, batch)
            before = asyncio.create_task(other(producer))
            await asyncio.sleep(0)  # the block waits for its turn
            attempts += is_probing
            points = Points(attempts if is_probing else NEVER)
            if is_probing:
                faults.arm()
            with suppress(TransactionError):
                await STRIKES[strikes_by](watch, points, block(scope, batch, producer))
            await before
            is_probing = is_probing and points.is_struck
            if batch.next_offset < len(fed) or scope.outcome is TransactionOutcome.ABORTED:
                continue
            if not is_probing and scope.outcome is TransactionOutcome.COMMITTED:
                done.set()
            else:
                await feed()

    await feed()
    async with Producer(
        config, transactional_id="totals-1", linger_ms=0, max_block_ms=max_block_ms
    ) as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        async with asyncio.timeout(STUCK_S) as limit:
            await during(owner, done.wait())
        await ended(owner)
    assert attempts > 5
    assert await totals(config) == fed
    found = (await Admin(cluster).committed(["totals"], require_stable=True))["totals"]
    assert not isinstance(found, KohortError)
    assert found[ORDERS].offset == len(fed)
