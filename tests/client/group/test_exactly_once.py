"""Consume, process, produce: what becomes of a transaction when its partitions go."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerGroup,
    End,
    Generation,
    Producer,
    TopicPartition,
)
from kohort.server.broker import Broker

T = TypeVar("T")
COMMITTED = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}


@pytest.fixture(autouse=True)
async def orders(broker: Broker, config: ClientConfig) -> None:
    """One record to process, and an empty topic for results."""
    broker.topics.create("orders", 1)
    broker.topics.create("totals", 1)
    async with Producer(config) as producer:
        await producer.send_and_wait("orders", b"1")


async def run(config: ClientConfig, name: str, work: Callable[..., Any], *args: Any) -> None:
    """A member whose task is `work`, until it is cancelled; of several the first name owns all."""
    async with ConsumerGroup(
        "totals",
        topics=["orders"],
        assignors=["range"],
        bootstrap=config.bootstrap,
        client_id=name,
        isolation_level="read_committed",
    ) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition, *args)


async def totals(config: ClientConfig) -> list[bytes]:
    """What readers of committed records get of the results."""
    async with Consumer(config, **COMMITTED) as consumer:
        await consumer.assign_topics("totals")
        (tp,) = consumer.assignment
        end = (await consumer.end_offsets([tp]))[tp]
        found = []
        while consumer.position(tp) < end:
            if (batch := await consumer.next_batch(max_wait_ms=100)) is not None:
                found += [record.value for record in batch]
        return found


async def test_a_revocation_waits_for_the_commit(config: ClientConfig) -> None:
    """The next owner starts behind the batch whose transaction was open when it joined."""
    inside, starts = asyncio.Event(), asyncio.Queue[int]()

    async def first(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            async with generation.exactly_once(producer, batch):
                await producer.send("totals", b"before")
                inside.set()
                assert await generation.ending() is End.REVOKED
                await producer.send("totals", b"after")

    async def second(generation: Generation, partition: TopicPartition) -> None:
        starts.put_nowait(generation.start_offset(partition))

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "b", first, producer))
        await during(owner, inside.wait())
        other = asyncio.create_task(run(config, "a", second))
        assert await during(other, starts.get()) == 1
        assert await totals(config) == [b"before", b"after"]
        await ended(owner, other)


async def test_a_loss_aborts(config: ClientConfig, cluster: Cluster) -> None:
    """The task is cancelled in its transaction; the next owner processes the batch again."""
    inside, done = asyncio.Event(), asyncio.Event()
    tries: list[int] = []
    owners: list[str] = []

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            tries.append(batch.first_offset)
            owners.append(generation.member_id)
            async with generation.exactly_once(producer, batch):
                await producer.send_and_wait("totals", b"try %d" % len(tries))
                if len(tries) == 1:
                    inside.set()
                    await asyncio.Event().wait()
            done.set()

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, inside.wait())
        await Admin(cluster).remove_members("totals", members=owners)
        await during(owner, done.wait())
        await ended(owner)
    assert tries == [0, 0]
    assert await totals(config) == [b"try 2"]


async def test_members_read_committed_records_and_lag_up_to_them(config: ClientConfig) -> None:
    """An open transaction is neither read nor lag, an aborted one is skipped."""
    lags = asyncio.Queue[int | None]()

    async def work(generation: Generation, partition: TopicPartition) -> None:
        async for batch in generation.records(partition):
            values.extend(record.value for record in batch)
            lags.put_nowait(generation.lag(partition))

    values: list[bytes | None] = []
    async with Producer(config, transactional_id="orders-1") as producer:
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"aborted")
            await transaction.abort()
        async with producer.transaction():
            await producer.send_and_wait("orders", b"2")
            reader = asyncio.create_task(run(config, "a", work))
            assert await during(reader, lags.get()) == 0
        while b"2" not in values:
            await during(reader, lags.get())
        await ended(reader)
    assert values == [b"1", b"2"]


async def during(task: asyncio.Task[None], awaited: Coroutine[Any, Any, T]) -> T:
    """The result of `awaited`, unless the task ends before."""
    result = asyncio.create_task(awaited)
    await asyncio.wait([task, result], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    return result.result()


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
