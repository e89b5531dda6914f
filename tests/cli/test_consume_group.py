"""`kohort consume -G` in this process, in virtual time."""

import asyncio
import os

from client.virtual_sockets import SocketVirtualLoop
from kohort.cli.byte_streams import ByteOutput
from kohort.cli.consume_group import GroupConsumer
from kohort.cli.consume_sink import Sink
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.group import ConsumerGroup
from kohort.server.broker import Broker
from kohort.server.config.config import Config

SETTINGS = {
    "listeners": "127.0.0.1:0",
    "storage": "memory",
    "group.initial.rebalance.delay.ms": "0",
}


async def tasks_in_a_minute() -> tuple[int, int]:
    """The number of tasks while nothing comes, ten seconds after the start and a minute later."""
    async with Broker(Config(SETTINGS)) as broker:
        broker.controller.topics.create("orders", 1)
        async with Cluster(ClientConfig(bootstrap=str(broker.address))) as cluster:
            sink = Sink(ByteOutput(os.open(os.devnull, os.O_WRONLY)), lambda _: b"", quiet=True)
            async with ConsumerGroup("g", topics=["orders"], cluster=cluster) as group:
                consumer = GroupConsumer(Admin(cluster), group, sink, None, False)
                running = asyncio.create_task(consumer.run())
                await asyncio.sleep(10)
                before = len(asyncio.all_tasks())
                await asyncio.sleep(60)
                after = len(asyncio.all_tasks())
                group.stop()
                await running
    return before, after


def test_idle_consuming_leaves_no_tasks_behind() -> None:
    with asyncio.Runner(loop_factory=SocketVirtualLoop) as runner:
        before, after = runner.run(tasks_in_a_minute())
    assert abs(after - before) <= 2  # requests under way
