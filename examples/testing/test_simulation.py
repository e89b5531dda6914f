"""A program of `kohort.client` under random faults, on simulated time and a simulated network.

The workers of a group copy the records of `orders` to `invoices`, at least once. Each run is two
minutes of simulated time, in which processes crash and connections break.
"""

import asyncio

import pytest

from kohort.client import Generation, Producer
from kohort.testing import Simulation, simulate
from kohort.types import TopicPartition

ORDERS = 40


async def worker(simulation: Simulation) -> None:
    """The program under test."""
    async with (
        simulation.producer() as producer,
        simulation.consumer("billing", topics=["orders"]) as group,
    ):
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(write_invoices, partition, producer)


async def write_invoices(
    generation: Generation, partition: TopicPartition, producer: Producer
) -> None:
    """Copy the records of a partition, and commit after that."""
    async for batch in generation.records(partition):
        for record in batch:
            await producer.send_and_wait("invoices", record.value)
        await generation.commit({partition: batch.next_offset})


async def shop(simulation: Simulation) -> None:
    """Write orders. It may begin again, so an order may be there more than once."""
    async with simulation.producer() as producer:
        for number in range(ORDERS):
            await producer.send_and_wait("orders", str(number).encode())
            await asyncio.sleep(2)


async def scenario(simulation: Simulation) -> None:
    await simulation.topic("orders", partitions=4)
    await simulation.topic("invoices")
    for number in range(1, 4):
        simulation.start(f"worker-{number}", worker, simulation)
    shopping = simulation.start("shop", shop, simulation)
    await simulation.run(seconds=120)
    await simulation.settle()
    await shopping.wait()
    await simulation.clock.sleep(10)
    invoices = {record.value for record in simulation.records("invoices")}
    assert invoices == {str(number).encode() for number in range(ORDERS)}


@pytest.mark.parametrize("seed", range(5))
def test_each_order_has_an_invoice_after_any_fault(seed: int) -> None:
    simulate(seed, scenario)
