"""An application of FastStream, with its broker for confluent-kafka."""

import asyncio

import pytest
from faststream import AckPolicy
from faststream.confluent import KafkaBroker
from faststream.confluent.helpers.config import ConfluentConfig

from kohort.testing import AsyncEmbeddedKafka


def application(bootstrap: str, client_id: str) -> tuple[KafkaBroker, "asyncio.Queue[str]"]:
    """A subscriber of `orders` in the group `billing`, and what it has handled."""
    config: ConfluentConfig = {"heartbeat.interval.ms": "50"}
    broker = KafkaBroker(bootstrap, client_id=client_id, logger=None, config=config)
    handled: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def handle(order: str) -> None:
        await handled.put(order)

    return broker, handled


@pytest.mark.asyncio
async def test_a_subscriber_handles_and_commits(akafka: AsyncEmbeddedKafka) -> None:
    akafka.topic("orders")
    akafka.produce("orders", b"paid")
    broker, handled = application(akafka.bootstrap, "a")
    async with broker:
        await broker.start()
        assert await asyncio.wait_for(handled.get(), 60) == "paid"
        await akafka.group("billing").wait(committed={("orders", 0): 1})


@pytest.mark.asyncio
async def test_a_second_instance_takes_half_of_the_partitions(akafka: AsyncEmbeddedKafka) -> None:
    akafka.topic("orders", partitions=4)
    (one, _), (two, _) = (application(akafka.bootstrap, name) for name in ("a", "b"))
    async with one, two:
        await one.start()
        await two.start()
        state = await akafka.group("billing").wait(state="Stable", members=2)
        assert [len(member.assignment) for member in state.members] == [2, 2]
