"""`ConsumerGroup.records`: all records one by one, each committed once it is finished."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kohort.client import Cluster, Consumer, ConsumerGroup, Producer
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", index) for index in range(2)]
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100}


@pytest.fixture(autouse=True)
async def topic(broker: Broker, cluster: Cluster) -> None:
    """Ten records in each of two partitions, in batches of five."""
    broker.controller.topics.create("orders", 2)
    async with Producer(cluster, linger_ms=1_000) as producer:
        for _ in range(2):
            for tp in ORDERS:
                for n in range(5):
                    await producer.send("orders", b"%d" % n, partition=tp.partition)
            await producer.flush()


def member(cluster: Cluster, **options: Any) -> ConsumerGroup:
    return ConsumerGroup("g", topics=["orders"], cluster=cluster, **{**QUICK, **options})


async def committed(cluster: Cluster) -> list[int | None]:
    async with Consumer(cluster, group_id="g") as consumer:
        found = await consumer.committed(ORDERS)
    return [None if each is None else each.offset for each in found.values()]


async def test_each_record_once_and_all_is_committed(cluster: Cluster) -> None:
    read: list[tuple[int, int]] = []
    async with member(cluster) as group:
        async for record in group.records():
            read.append((record.partition, record.offset))
            if len(read) == 20:
                group.stop()
    assert sorted(read) == [(p, n) for p in range(2) for n in range(10)]
    assert await committed(cluster) == [10, 10]


async def test_the_record_whose_processing_failed_is_delivered_again(cluster: Cluster) -> None:
    read: list[tuple[int, int]] = []
    with suppress(ZeroDivisionError):
        async with member(cluster) as group:
            async for record in group.records():
                read.append((record.partition, record.offset))
                if len(read) == 8:
                    raise ZeroDivisionError
    offsets = await committed(cluster)
    assert sum(offset or 0 for offset in offsets) == 7  # all but the one in work
    async with member(cluster) as group:
        record = await anext(group.records())
        again = [(record.partition, record.offset)]
        async for record in group.records():
            again.append((record.partition, record.offset))
            if len(again) == 13:
                break
    assert sorted(read[:7] + again) == [(p, n) for p in range(2) for n in range(10)]


async def test_offsets_are_committed_at_the_interval(cluster: Cluster) -> None:
    async with member(cluster, auto_commit_interval_ms=100) as group:
        records = group.records()
        for _ in range(3):
            await anext(records)
        await asyncio.sleep(1)
        assert sum(each or 0 for each in await committed(cluster)) == 2


async def test_a_second_member_gets_a_partition_behind_the_record_in_work(
    cluster: Cluster,
) -> None:
    read: list[tuple[int, int]] = []

    async def consume(group: ConsumerGroup) -> None:
        async for record in group.records():
            read.append((record.partition, record.offset))
            await asyncio.sleep(0.2)
            if len(read) == 20:
                one.stop()
                other.stop()

    async with member(cluster) as one, member(cluster) as other:
        await asyncio.gather(consume(one), consume(other))
    assert sorted(read) == [(p, n) for p in range(2) for n in range(10)]


async def test_records_needs_an_entered_group_and_survives_time_limits(cluster: Cluster) -> None:
    with pytest.raises(KohortError, match="enter the group first"):
        member(cluster).records()
    async with member(cluster, start_offset="last") as group:
        records = group.records()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(records), 0.5)
        async with Producer(cluster) as producer:
            await producer.send_and_wait("orders", b"late", partition=1)
        assert (await anext(records)).value == b"late"
