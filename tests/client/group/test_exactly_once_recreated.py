"""The input topic is deleted and created again while a transaction on its records is under way.

Offsets of the old topic, committed for its name, would hide the first records of the new one.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from client.group.test_exactly_once import during, ended, run, totals
from client.points import Points, Watch
from kohort.client import (
    Admin,
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

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("transactions", ["first", "second"], ids="{} protocol".format)
@pytest.mark.parametrize("through", ["exactly_once", "commit_offsets"])
async def test_at_every_await_the_new_topic_is_read_from_its_first_record(
    broker: Broker,
    config: ClientConfig,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    through: str,
    transactions: str,
    protocol: str,
) -> None:
    if transactions == "first":
        monkeypatch.setattr(Connection, "feature", lambda _self, _name: 0)
    watch, done = Watch(asyncio.get_running_loop()), asyncio.Event()
    admin = Admin(cluster)
    creating: set[asyncio.Task[None]] = set()
    made = 0
    expected: list[bytes] = []
    outcomes = []

    async def create() -> None:
        nonlocal made
        made += 1
        if made > 1:
            await admin.delete_topic("orders")
        await admin.create_topic("orders", partitions=1)
        async with Producer(config) as feeder:
            for index in range(2):
                await feeder.send("orders", b"topic %d, record %d" % (made, index))

    async def block(scope: Any, batch: Any, generation: Generation, producer: Producer) -> None:
        async with scope as transaction:
            for record in batch:
                await producer.send("totals", record.value)
            if through == "commit_offsets":
                await transaction.commit_offsets({ORDERS: batch.next_offset}, generation)

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            scope: Any = (
                generation.exactly_once(producer, batch)
                if through == "exactly_once"
                else producer.transaction()
            )
            values = [record.value or b"" for record in batch]
            is_new = values[0] == b"topic %d, record 0" % made
            points = Points(made if is_new else 0)
            points.strike = lambda: creating.add(asyncio.ensure_future(create()))
            with suppress(TransactionError), watch(points):
                await watch.counted(block(scope, batch, generation, producer))
            outcomes.append(scope.outcome)
            if scope.outcome is TransactionOutcome.COMMITTED:
                expected.extend(values)
            if is_new and not points.is_struck:
                done.set()
            elif creating:
                await asyncio.wait(creating)

    broker.controller.topics.create("totals", 1)
    await create()
    async with Producer(config, transactional_id="totals-1", linger_ms=0) as producer:
        owner = asyncio.create_task(run(config, "a", work, producer, protocol=protocol))
        async with asyncio.timeout(36_000):
            await during(owner, done.wait())
        await ended(owner)
    assert made > 5
    assert {TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED} == {*outcomes}
    assert await totals(config) == expected
    assert expected[-2:] == [b"topic %d, record %d" % (made, index) for index in range(2)]
    found = (await admin.committed(["totals"], require_stable=True))["totals"]
    assert not isinstance(found, KohortError)
    assert found[ORDERS].offset == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("through", ["exactly_once", "commit"])
async def test_a_batch_in_work_when_another_partition_finds_the_new_topic(
    broker: Broker, config: ClientConfig, cluster: Cluster, through: str, protocol: str
) -> None:
    admin = Admin(cluster)
    in_work, is_new, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    read: list[bytes] = []

    async def create(value: bytes) -> None:
        await admin.create_topic("orders", partitions=2)
        async with Producer(config) as feeder:
            for partition in range(2):
                await feeder.send_and_wait("orders", value, partition=partition)

    async def finish(generation: Generation, batch: Any, producer: Producer) -> None:
        await asyncio.sleep(0.5)  # the other partition finds the new topic meanwhile
        if through == "commit":
            await generation.commit({batch.topic_partition: batch.next_offset})
            return
        async with generation.exactly_once(producer, batch):
            await producer.send("totals", b"")

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            if is_new.is_set():
                read.extend(record.value or b"" for record in batch)
                if len(read) == 2:
                    done.set()
                continue
            if partition != ORDERS:
                in_work.set()
            await is_new.wait()
            if partition != ORDERS:
                await finish(generation, batch, producer)

    broker.controller.topics.create("totals", 1)
    await create(b"old")
    async with Producer(config, transactional_id="totals-1", linger_ms=0) as producer:
        owner = asyncio.create_task(run(config, "a", work, producer, protocol=protocol))
        async with asyncio.timeout(600):
            await during(owner, in_work.wait())
            await admin.delete_topic("orders")
            await create(b"new")
            is_new.set()
            await during(owner, done.wait())
        await ended(owner)
    assert read == [b"new", b"new"]
