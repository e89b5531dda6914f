"""Scenarios that run in `make simulate` and in the test suite."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kohort.client import Generation, Producer
from kohort.testing.simulation.simulation import Simulation
from kohort.types import TopicPartition

TOPIC: Final = "orders"
OUTPUT: Final = "invoices"
GROUP: Final = "billing"
PARTITIONS: Final = 6
MEMBERS: Final = 3
PERIOD_S: Final = 180.0
"""Simulated time with faults."""

Options = dict[str, Any]
Worker = Callable[[Simulation, str, Options], Coroutine[Any, Any, None]]


async def classic(simulation: Simulation, period_s: float = PERIOD_S) -> None:
    """Members of the classic protocol read what idempotent producers write."""
    await _read_and_write(simulation, period_s, _worker, _classic_options(simulation))


async def consumer(simulation: Simulation, period_s: float = PERIOD_S) -> None:
    """Members of the consumer protocol (KIP-848) read what idempotent producers write."""
    await _read_and_write(simulation, period_s, _worker, {"protocol": "consumer"})


async def exactly_once(simulation: Simulation, period_s: float = PERIOD_S) -> None:
    """Members of either protocol copy records in transactions, each exactly once."""
    options = simulation.random.choice([_classic_options(simulation), {"protocol": "consumer"}])
    options |= {"isolation_level": "read_committed"}
    await simulation.topic(OUTPUT, partitions=2)
    await _read_and_write(simulation, period_s, _copying_worker, options)
    await _until_transactions_end(simulation)
    copied = Counter(record.value for record in simulation.records(OUTPUT))
    written = Counter(record.value for record in simulation.records(TOPIC))
    assert copied == written, (
        f"not copied: {[*(written - copied)]}; copied once more: {[*(copied - written)]}"
    )


def _classic_options(simulation: Simulation) -> Options:
    assignors = [("range",), ("cooperative-sticky",), ("roundrobin",)]
    return {"protocol": "classic", "assignors": simulation.random.choice(assignors)}


async def _read_and_write(
    simulation: Simulation, period_s: float, worker: Worker, options: Options
) -> None:
    await simulation.topic(TOPIC, partitions=PARTITIONS)
    is_static = simulation.random.random() < _STATIC_SHARE
    for number in range(1, MEMBERS + 1):
        name = f"worker-{number}"
        own_options = {**options, "instance_id": name} if is_static else options
        simulation.start(name, worker, simulation, name, own_options)
    for number in (1, 2):
        simulation.start(f"shop-{number}", _shop, simulation, f"shop-{number}")
    await simulation.run(period_s)
    await simulation.settle()
    await _until_all_is_read(simulation)


_STATIC_SHARE: Final = 0.3
"""Share of the seeds whose members are static (KIP-345)."""


async def _worker(simulation: Simulation, _: str, options: Options) -> None:
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


async def _copying_worker(simulation: Simulation, name: str, options: Options) -> None:
    async with (
        simulation.producer(transactional_id=name) as producer,
        simulation.consumer(GROUP, topics=[TOPIC], **options) as group,
    ):
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(_copy, partition, simulation, producer)


async def _copy(
    generation: Generation[Any, Any],
    partition: TopicPartition,
    simulation: Simulation,
    producer: Producer[Any, Any],
) -> None:
    async for batch in generation.records(partition):
        async with generation.exactly_once(producer, batch):
            for record in batch:
                await producer.send(OUTPUT, record.value)
            await asyncio.sleep(simulation.random.expovariate(20))


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
    deadline = simulation.clock.monotonic() + _READ_S
    while left := _unread(simulation):
        assert simulation.clock.monotonic() < deadline, f"not read: {left}"
        await asyncio.sleep(0.5)


_READ_S: Final = 120.0
"""Time to read what is left; a transaction of a killed process blocks readers for 60 s."""


async def _until_transactions_end(simulation: Simulation) -> None:
    """Wait for the last markers: committed records behind an open transaction are not read."""
    topic = simulation.server.broker.topics.get(OUTPUT)
    assert topic is not None
    deadline = simulation.clock.monotonic() + _READ_S
    while any(log.last_stable_offset < log.end_offset for log in topic.partitions):
        assert simulation.clock.monotonic() < deadline, "a transaction does not end"
        await asyncio.sleep(0.5)


def _unread(simulation: Simulation) -> dict[int, tuple[int, int]]:
    """Committed offset and end of each partition that was not read to its end."""
    topic = simulation.server.broker.topics.get(TOPIC)
    committed = simulation.group(GROUP).committed
    assert topic is not None
    return {
        number: (committed.get((TOPIC, number), 0), log.high_watermark)
        for number, log in enumerate(topic.partitions)
        if committed.get((TOPIC, number), 0) != log.high_watermark
    }


SCENARIOS: Final = {scenario.__name__: scenario for scenario in (classic, consumer, exactly_once)}
