"""A client belongs to one event loop of asyncio: others, and none, are refused with a remedy."""

import asyncio
import warnings
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kohort.client import Admin, ClientConfig, Cluster, Consumer, ConsumerGroup, Producer
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


def elsewhere(work: Coroutine[Any, Any, object]) -> object:
    """The result of `work` in another thread's loop."""
    with ThreadPoolExecutor() as thread:
        return thread.submit(asyncio.run, work).result()


async def test_another_threads_loop_is_refused(broker: Broker, config: ClientConfig) -> None:
    broker.controller.topics.create("orders", 1)
    async with (
        Producer(config) as producer,
        Consumer(config) as consumer,
        Cluster(config) as cluster,
        ConsumerGroup("g", topics=["orders"], cluster=config) as group,
    ):
        await consumer.assign_topics("orders")
        for work in (
            producer.send("orders", b"first use"),
            producer.close(),
            consumer.partitions_for("orders"),
            consumer.assign({ORDERS: 0}),
            consumer.next_batch(max_wait_ms=0),
            consumer.close(),
            cluster.metadata(),
            cluster.close(),
            group.next(),
            group.close(),
        ):
            with pytest.raises(KohortError, match="another event loop than before; make one for"):
                elsewhere(work)
        await producer.send_and_wait("orders", b"value")
        assert (await anext(consumer)).value == b"value"
        group.stop()


async def test_a_closed_client_may_be_closed_from_anywhere(config: ClientConfig) -> None:
    clients = (Producer(config), Consumer(config), Cluster(config), Admin(config))
    for client in clients:
        await client.close()
        elsewhere(client.close())


@pytest.mark.parametrize(
    "client", [Admin, Cluster, Consumer, Producer, lambda: ConsumerGroup("g", topics=["t"])]
)
def test_no_event_loop_as_under_trio(client: Any) -> None:
    opened = client()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "coroutine … was never awaited"
        with pytest.raises(
            KohortError, match=r"needs a running asyncio event loop.* kohort\.client\.sync"
        ):
            opened.__aenter__().send(None)
        if not isinstance(opened, ConsumerGroup):
            with pytest.raises(KohortError, match="needs a running asyncio event loop"):
                opened.close().send(None)
