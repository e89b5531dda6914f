"""Clients go on where the data of their server was copied to."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from kohort.cli import app
from kohort.client import ClientConfig, Consumer, Producer, TopicPartition
from kohort.server.broker import Broker
from kohort.server.config import Config
from peers.kafka import free_port

ORDERS = TopicPartition("orders", 0)


async def started(address: str, place: Mapping[str, str]) -> Broker:
    settings = {
        "listeners": address,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = Broker(Config({**settings, **place}))
    await broker.start()
    return broker


async def copy(source: str, target: str) -> None:
    words = ["storage", "copy", "--from", source, "--to", target]
    assert await asyncio.to_thread(app.run, words) == 0


async def consume_one(client: ClientConfig) -> bytes | None:
    """The next committed record of a group, which commits it."""
    async with Consumer(
        client, group_id="billing", isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([ORDERS])
        value = (await anext(consumer)).value
        await consumer.commit()
    return value


async def test_groups_and_open_transactions_go_on(database: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    client = ClientConfig(bootstrap=address)
    files, back = str(tmp_path / "data"), str(tmp_path / "back")
    broker = await started(address, {"log.dir": files})
    cluster_id = broker.cluster_id
    async with Producer(client, transactional_id="t") as producer:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"1", partition=0)
            await producer.send_and_wait("orders", b"2", partition=0)
        assert await consume_one(client) == b"1"
        async with producer.transaction():
            await producer.send_and_wait("orders", b"3", partition=0)
            await broker.close()
            await copy(files, database)
            broker = await started(address, {"storage": database})
            assert await consume_one(client) == b"2"
            await producer.send_and_wait("orders", b"4", partition=0)
        assert await consume_one(client) == b"3"
        await broker.close()
        await copy(database, back)
        broker = await started(address, {"log.dir": back})
        async with producer.transaction():
            await producer.send_and_wait("orders", b"5", partition=0)
        assert [await consume_one(client) for _ in range(2)] == [b"4", b"5"]
    assert broker.cluster_id == cluster_id
    await broker.close()


async def test_data_of_a_cluster_is_copied_to_a_directory(database: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    client = ClientConfig(bootstrap=address)
    nodes = {"storage": database}
    files = str(tmp_path / "data")
    broker = await started(address, nodes)
    cluster_id = broker.cluster_id
    async with Producer(client) as producer:
        await producer.send_and_wait("orders", b"1", partition=0)
        assert await consume_one(client) == b"1"
        await producer.send_and_wait("orders", b"2", partition=0)
    await broker.close()
    assert await asyncio.to_thread(app.run, ["storage", "check", "--storage", database]) in (0, 3)
    await copy(database, files)
    assert await asyncio.to_thread(app.run, ["storage", "check", "--storage", files]) in (0, 3)
    broker = await started(address, {"log.dir": files})
    assert broker.cluster_id == cluster_id
    assert await consume_one(client) == b"2"
    await broker.close()
