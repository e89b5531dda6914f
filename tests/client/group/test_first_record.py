"""The time from the assignment to the first record, on a server in this process."""

import asyncio

from kohort.client.config import ClientConfig
from kohort.client.group.group import ConsumerGroup
from kohort.client.produce.producer import Producer
from kohort.server.broker import Broker


async def test_the_first_record_comes_soon_after_the_assignment(
    broker: Broker, config: ClientConfig
) -> None:
    broker.controller.topics.create("orders", 4)
    async with Producer(config) as producer:
        await producer.send("orders", b"0")
    loop = asyncio.get_running_loop()
    times: dict[str, float] = {}

    async def work(generation, partition):
        async for _ in generation.records(partition):
            times.setdefault("record", loop.time())
            group.stop()

    def note(event):
        times.setdefault(event.what, loop.time())

    group = ConsumerGroup("g", topics=["orders"], bootstrap=str(broker.address), on_event=note)
    async with group:
        await group.run_until_signal(work)
    assert times["record"] - times["generation"] < 0.2
