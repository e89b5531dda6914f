"""Programs of users, for type checkers alone: in lines that end with `# wrong` they find errors."""

import json
from typing import Any, assert_type

import kohort.client
from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerGroup,
    DeliveryTimeoutError,
    Generation,
    Producer,
    Security,
    SerializationContext,
    TopicPartition,
    UndeliveredError,
    sync,
)


async def lists(cluster: Cluster) -> None:
    kohort.client.Nonsense(cluster)  # wrong


async def work(generation: Generation, partition: TopicPartition, database: str) -> None:
    async for batch in generation.records(partition):
        print(database, [record.value for record in batch])
        await generation.commit({partition: batch.next_offset})


async def consume() -> None:
    config = ClientConfig(bootstrap="localhost:9092", security=Security(protocol="SSL"))
    ClientConfig(bootstrap_servers="localhost:9092")  # wrong
    async with ConsumerGroup("g", topics=["orders"], session_timeout_ms=6_000) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition, "orders.db")
                    generation.start(work, partition, database="orders.db", name="second")
                    generation.start(work, partition)  # wrong
                    generation.start(work, partition, 5)  # wrong
        await group.run_until_signal(work, "orders.db")
        await group.run_until_signal(work)  # wrong
    ConsumerGroup("g", topics=["orders"], sesion_timeout_ms=6_000)  # wrong
    ConsumerGroup("g", topics=["orders"], session_timeout_ms="6 s")  # wrong
    ConsumerGroup("g", topics=["orders"], start_offset="begin")  # wrong
    Consumer(config, start_offset="begin")  # wrong
    Consumer(bootstrap="localhost:9092", auto_offset_reset="earliest", client_id="c")
    Consumer(bootstrap=9092)  # wrong
    sync.Consumer(bootstrap="localhost:9092", start_offset="last")
    sync.Producer(bootstrap="localhost:9092", linger_ms=5)
    Producer(bootstrap="localhost:9092", max_in_flight_requests_per_connection=1)
    Admin(bootstraps="localhost:9092")  # wrong


async def produce(config: ClientConfig) -> None:
    try:
        async with Producer(config, linger_ms=5) as producer:
            delivery = await producer.send("orders", b"value")
            print((await delivery).offset)
            await producer.send("orders", "value")  # wrong
        Producer(config, linger=5)  # wrong
    except (UndeliveredError, DeliveryTimeoutError) as error:
        print(error)
    async with Cluster(config) as cluster:
        print(len((await Admin(cluster).list_groups()).groups))


class Order:
    """A value of an application."""


def parse(data: bytes) -> Order: ...  # type: ignore[empty-body]


def parse_in_context(data: bytes | None, ctx: SerializationContext) -> Order: ...  # type: ignore[empty-body]


def dump(order: Order) -> bytes: ...  # type: ignore[empty-body]


async def dump_later(order: Order) -> bytes: ...  # type: ignore[empty-body]


async def work_on_orders(generation: Generation[str, Order], partition: TopicPartition) -> None:
    async for batch in generation.records(partition):
        for record in batch:
            assert_type(record.key, str | None)
            assert_type(record.value, Order | None)
            assert_type(record.raw.value, bytes | None)


async def serialize(config: ClientConfig) -> None:
    async with Producer(config, value_serializer=dump) as producer:
        await producer.send("orders", Order(), key=b"k")
        await producer.send("orders", None)
        await producer.send("orders", b"bytes")  # wrong
    async with Producer(config, value_serializer=dump_later) as later:
        await later.send("orders", Order())
    Producer(config, value_serializer=5)  # wrong
    async with Consumer(config) as plain:
        assert_type((await anext(plain)).value, bytes | None)
    async with Consumer(config, value_deserializer=parse) as consumer:
        record = await anext(consumer)
        assert_type(record.key, bytes | None)
        assert_type(record.value, Order | None)
    assert_type(Consumer(config, value_deserializer=parse_in_context), Consumer[bytes, Order])
    assert_type(Consumer(config, value_deserializer=json.loads), Consumer[bytes, Any])
    async with ConsumerGroup(
        "g", topics=["orders"], key_deserializer=bytes.decode, value_deserializer=parse
    ) as group:
        await group.run_until_signal(work_on_orders)
        await group.run_until_signal(work, "orders.db")  # wrong
    with (
        sync.Producer(config, value_serializer=dump) as blocking,
        sync.Consumer(config, value_deserializer=parse) as reading,
    ):
        blocking.send("orders", Order())
        assert_type(next(reading).value, Order | None)
    for batch in sync.ConsumerGroup("g", topics=["orders"], value_deserializer=parse):
        assert_type([record.value for record in batch], list[Order | None])
