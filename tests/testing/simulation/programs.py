"""Programs of the scenarios in these tests."""

import asyncio
from typing import Any

from kohort.client import Generation
from kohort.testing import Simulation
from kohort.types import TopicPartition

TOPIC = "orders"
GROUP = "billing"


async def member(simulation: Simulation, **options: Any) -> None:
    """Read the topic, and commit each batch."""
    async with simulation.consumer(GROUP, topics=[TOPIC], **options) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(read, partition)


async def read(generation: Generation[Any, Any], partition: TopicPartition) -> None:
    async for batch in generation.records(partition):
        await generation.commit({partition: batch.next_offset})


async def write(simulation: Simulation, count: int) -> None:
    """Send a record per second."""
    async with simulation.producer() as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, str(number).encode())
            await asyncio.sleep(1)


def values(simulation: Simulation) -> list[bytes | None]:
    """The values in the topic, by partition and offset."""
    return [record.value for record in simulation.records(TOPIC)]
