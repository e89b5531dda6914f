"""Partitions that come after the group, under `start_offset="last"`."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.group.generation import Generation
from kohort.client.group.group import ConsumerGroup
from kohort.client.produce.producer import Producer
from kohort.types import TopicPartition
from live.client.brokers import Site
from peers.kafka import LAST_OF_3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("by_pattern", [True, False])
async def test_records_of_new_partitions_before_their_assignment_are_read(
    site: Site, protocol: Any, by_pattern: bool
) -> None:
    if protocol == "consumer" and site.name == f"kafka-{LAST_OF_3}":
        pytest.skip("that broker has the classic protocol only")
    async with Cluster(ClientConfig(bootstrap=site.address)) as cluster:
        await read_new_ones(cluster, protocol, by_pattern)


async def read_new_ones(cluster: Cluster, protocol: Any, by_pattern: bool) -> None:
    admin, name = Admin(cluster), f"new-{uuid4().hex}"
    first, second = f"{name}-a", f"{name}-b"
    by: Any = {"pattern": f"{name}-.*"} if by_pattern else {"topics": [first, second]}
    await admin.create_topic(first, partitions=1)
    read: set[tuple[str, int, bytes | None]] = set()
    began, is_done = asyncio.Event(), asyncio.Event()

    async def work(generation: Generation, partition: TopicPartition) -> None:
        began.set()
        async for batch in generation.records(partition):
            read.update(
                (batch.topic_partition.topic, partition.partition, each.value) for each in batch
            )
            await generation.commit({partition: batch.next_offset})
            if len(read) == 3:
                is_done.set()

    async def create(producer: Producer) -> None:
        await began.wait()
        await producer.send_and_wait(first, b"later", partition=0)
        await admin.create_partitions(first, 2)
        await producer.send_and_wait(first, b"early", partition=1)
        await admin.create_topic(second, partitions=1)
        await producer.send_and_wait(second, b"early", partition=0)
        async with asyncio.timeout(120):
            await is_done.wait()

    async with Producer(cluster) as producer:
        await producer.send_and_wait(first, b"before", partition=0)
        async with ConsumerGroup(
            name,
            cluster=cluster,
            protocol=protocol,
            start_offset="last",
            partition_watch_interval_ms=100,
            heartbeat_interval_ms=100,
            **by,
        ) as group:
            creating = asyncio.ensure_future(create(producer))
            creating.add_done_callback(lambda _: group.stop())
            async for generation in group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(work, partition)
            await creating
    assert read == {(first, 0, b"later"), (first, 1, b"early"), (second, 0, b"early")}
