"""Scenarios that run in `make simulate` and in the test suite."""

import asyncio
from typing import Any, Final, Literal

from kohort.client import Generation
from kohort.testing.simulation.simulation import Simulation
from kohort.types import TopicPartition

TOPIC: Final = "orders"
GROUP: Final = "billing"
PARTITIONS: Final = 6
MEMBERS: Final = 3
PERIOD_S: Final = 180.0
"""Simulated time with faults."""


async def classic(simulation: Simulation, period_s: float = PERIOD_S) -> None:
    """Members of the classic protocol read what idempotent producers write."""
    assignors = simulation.random.choice([("range",), ("cooperative-sticky",), ("roundrobin",)])
    await _read_and_write(simulation, period_s, protocol="classic", assignors=assignors)


async def consumer(simulation: Simulation, period_s: float = PERIOD_S) -> None:
    """Members of the consumer protocol (KIP-848) read what idempotent producers write."""
    await _read_and_write(simulation, period_s, protocol="consumer")


async def _read_and_write(
    simulation: Simulation,
    period_s: float,
    *,
    protocol: Literal["classic", "consumer"],
    **options: Any,
) -> None:
    await simulation.topic(TOPIC, partitions=PARTITIONS)
    for number in range(1, MEMBERS + 1):
        simulation.start(f"worker-{number}", _worker, simulation, {"protocol": protocol, **options})
    for number in (1, 2):
        simulation.start(f"shop-{number}", _shop, simulation, f"shop-{number}")
    await simulation.run(period_s)
    await simulation.settle()
    await _until_all_is_read(simulation)


async def _worker(simulation: Simulation, options: dict[str, Any]) -> None:
    async with simulation.consumer(GROUP, topics=[TOPIC], **options) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(_work, partition, simulation)


async def _work(
    generation: Generation[Any, Any], partition: TopicPartition, simulation: Simulation
) -> None:
    async for batch in generation.records(partition):
        await asyncio.sleep(simulation.random.expovariate(10))
        await generation.commit({partition: batch.next_offset})


async def _shop(simulation: Simulation, name: str) -> None:
    number = 0
    async with simulation.producer() as producer:
        while True:
            number += 1
            value = f"{name} {simulation.clock.monotonic():.6f} {number}".encode()
            await producer.send_and_wait(TOPIC, value)
            await asyncio.sleep(simulation.random.expovariate(2))


async def _until_all_is_read(simulation: Simulation) -> None:
    """Stop the producers, and check that the group reads what they wrote."""
    for name, program in simulation.programs.items():
        if name.startswith("shop"):
            await program.stop(60)
    for _ in range(240):
        committed = simulation.group(GROUP).committed
        ends = {
            partition: log.high_watermark
            for partition, log in enumerate(simulation.server.broker.topics.get(TOPIC).partitions)  # type: ignore[union-attr]
        }
        if all(committed.get((TOPIC, partition), 0) == end for partition, end in ends.items()):
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"the group has committed {committed}, and the partitions end at {ends}")


SCENARIOS: Final = {scenario.__name__: scenario for scenario in (classic, consumer)}
