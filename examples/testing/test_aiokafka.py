"""Consumers of aiokafka, with pytest-asyncio in its default mode."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]

from kohort.testing import AsyncEmbeddedKafka

StartConsumer = Callable[[str], Awaitable[AIOKafkaConsumer]]


@pytest_asyncio.fixture
async def start_consumer(akafka: AsyncEmbeddedKafka) -> AsyncIterator[StartConsumer]:
    """Starts consumers of the group `billing`, which are stopped after the test."""
    started = []

    async def start(client_id: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=akafka.bootstrap,
            group_id="billing",
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # else `stop` of a killed consumer retries its commit forever
            session_timeout_ms=45_000,
            heartbeat_interval_ms=50,
            retry_backoff_ms=20,
        )
        started.append(consumer)
        await consumer.start()
        return consumer

    yield start
    for consumer in started:
        await consumer.stop()


@pytest.mark.asyncio
async def test_another_member_takes_over_after_a_crash(
    akafka: AsyncEmbeddedKafka, start_consumer: StartConsumer
) -> None:
    akafka.topic("orders", partitions=4)
    a = await start_consumer("a")
    await start_consumer("b")
    group = akafka.group("billing")
    await group.wait(state="Stable", members=2)
    akafka.kill(a)  # its connection is gone, without a LeaveGroup
    await akafka.advance(45)  # its session expires now
    stable = await group.wait(state="Stable", members=1)
    assert stable.rebalances[-1].cause == "session expired"
    assert len(stable.members[0].assignment) == 4


@pytest.mark.asyncio
async def test_an_offset_that_does_not_exist_is_reset_to_the_earliest(
    akafka: AsyncEmbeddedKafka, start_consumer: StartConsumer
) -> None:
    akafka.topic("orders")
    akafka.produce("orders", b"first", b"second")
    akafka.group("billing").commit({("orders", 0): 99})  # beyond the end
    consumer = await start_consumer("a")
    records = [(await consumer.getone()).value for _ in range(2)]
    assert records == [b"first", b"second"]
