"""Clients in the middle of their work when brokers require a new start (KIP-1242)."""

from typing import Any

import pytest

from kohort.client import (
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerGroup,
    Generation,
    Producer,
    TopicPartition,
)
from kohort.client.errors import BrokerUnreachableError
from kohort.errors import ErrorCode
from kohort.server.broker import Broker
from kohort.server.handlers import api_versions

FIRST = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 1)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters of requests that the broker took for misrouted ones: each second one."""
    judge, met = api_versions._error, []

    def wrong_each_second_time(services: Any, exchange: Any, request: Any) -> ErrorCode | None:
        if getattr(request, "cluster_id", None) is not None:
            met.append(request.cluster_id)
            if len(met) % 2:
                return ErrorCode.rebootstrap_required
        return judge(services, exchange, request)

    monkeypatch.setattr(api_versions, "_error", wrong_each_second_time)
    return met


def cut(cluster: Cluster) -> None:
    """Break all connections of the client."""
    cluster._connections.drop_all(BrokerUnreachableError("cut"))


async def values(config: ClientConfig, **options: Any) -> list[bytes | None]:
    async with Consumer(config, auto_offset_reset="earliest", **options) as consumer:
        await consumer.assign([FIRST])
        end = (await consumer.end_offsets([FIRST]))[FIRST]
        found: list[bytes | None] = []
        while consumer.position(FIRST) < end:
            if (batch := await consumer.next_batch(max_wait_ms=100)) is not None:
                found += [record.value for record in batch]
        return found


async def test_a_producer_loses_and_repeats_no_record(
    config: ClientConfig, refused: list[str]
) -> None:
    sent = [b"%d" % number for number in range(200)]
    async with Producer(config, linger_ms=0) as producer:
        for number, value in enumerate(sent):
            await producer.send("orders", value)
            if number % 20 == 0:
                cut(producer.cluster)
                await producer.flush()
        await producer.flush()
    assert len(refused) > 5
    assert await values(config) == sent


async def test_a_transaction_commits_records_and_offsets(
    config: ClientConfig, refused: list[str]
) -> None:
    sent = []
    async with (
        Producer(config, transactional_id="shop", linger_ms=0) as producer,
        Consumer(config, group_id="readers", start_offset="first") as consumer,
    ):
        await consumer.assign([FIRST])
        for number in range(10):
            async with producer.transaction() as transaction:
                for part in range(3):
                    await producer.send("orders", b"%d-%d" % (number, part))
                    sent.append(b"%d-%d" % (number, part))
                    cut(producer.cluster)
                await transaction.commit_offsets({FIRST: number + 1}, consumer)
                cut(producer.cluster)
    assert len(refused) > 5
    assert await values(config, isolation_level="read_committed") == sent


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_keeps_its_generation_and_commits(
    config: ClientConfig, refused: list[str], protocol: str
) -> None:
    async with Producer(config) as producer:
        for number in range(50):
            await producer.send("orders", b"%d" % number)
    read: list[bytes | None] = []
    generations = 0

    async def work(generation: Generation, partition: TopicPartition) -> None:
        async for batch in generation.records(partition):
            read.extend(record.value for record in batch)
            for _ in range(3):
                cut(cluster)
                await generation.commit({partition: batch.next_offset})
            if len(read) >= 50:
                group.stop()

    options = {"protocol": protocol, "start_offset": "first"}
    async with (
        Cluster(config) as cluster,
        ConsumerGroup("g", topics=["orders"], cluster=cluster, **options) as group,
    ):
        async for generation in group:
            generations += 1
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition)
    assert len(refused) > 1
    assert read == [b"%d" % number for number in range(50)]
    assert generations == 1
