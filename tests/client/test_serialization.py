"""Serializers and deserializers: what they get, and what becomes of their errors."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka.serialization import (
    IntegerDeserializer,
    IntegerSerializer,
    MessageField,
    StringDeserializer,
    StringSerializer,
)

from kohort.client import (
    Consumer,
    ConsumerGroup,
    DeadLetters,
    DeserializationError,
    Generation,
    Producer,
    Record,
    SerializationContext,
    SerializationError,
    TopicPartition,
)
from kohort.client.cluster.cluster import Cluster
from kohort.errors import ConfigError
from kohort.server.broker import Broker

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 1)


@pytest.fixture
async def plain(cluster: Cluster) -> AsyncIterator[Producer]:
    async with Producer(cluster) as opened:
        yield opened


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


async def dumps_later(value: Any) -> bytes:
    await asyncio.sleep(0.01)
    return dumps(value)


async def loads_later(data: bytes) -> Any:
    await asyncio.sleep(0.01)
    return json.loads(data)


async def fill(producer: Producer, *values: bytes | None) -> None:
    for value in values:
        await producer.send("orders", value, key=b"k")
    await producer.flush()


async def read(cluster: Cluster, count: int, **options: Any) -> list[Record[Any, Any]]:
    async with Consumer(cluster, **options) as consumer, asyncio.timeout(60):
        await consumer.assign([ORDERS])
        return [await anext(consumer) for _ in range(count)]


@pytest.mark.parametrize("serializer", [dumps, dumps_later])
@pytest.mark.parametrize("deserializer", [json.loads, loads_later])
async def test_values_there_and_back(cluster: Cluster, serializer: Any, deserializer: Any) -> None:
    async with Producer(cluster, key_serializer=str.encode, value_serializer=serializer) as sending:
        await sending.send("orders", {"price": 3}, key="a")
        await sending.send("orders", None, key="b")
        await sending.send_and_wait("orders", [1], key=None)
    found = await read(cluster, 3, key_deserializer=bytes.decode, value_deserializer=deserializer)
    assert [(each.key, each.value) for each in found] == [
        ("a", {"price": 3}),
        ("b", None),
        (None, [1]),
    ]
    assert [each.offset for each in found] == [0, 1, 2]
    assert (found[0].raw.key, found[0].raw.value) == (b"a", b'{"price": 3}')
    (_, _, _, _, _, key, value, _, _) = found[0]
    assert (key, value) == ("a", {"price": 3})
    assert [each.value for each in await read(cluster, 3)] == [b'{"price": 3}', None, b"[1]"]


async def test_serializers_of_confluent_kafka_can_be_used(cluster: Cluster) -> None:
    async with Producer(
        cluster, key_serializer=StringSerializer(), value_serializer=IntegerSerializer()
    ) as producer:
        await producer.send("orders", 7, key="a")
        await producer.send("orders", None, key="b")
    found = await read(
        cluster, 2, key_deserializer=StringDeserializer(), value_deserializer=IntegerDeserializer()
    )
    assert [(each.key, each.value) for each in found] == [("a", 7), ("b", None)]


async def test_a_function_may_take_a_context_and_then_gets_nulls(cluster: Cluster) -> None:
    told: list[object] = []

    def serialize(value: Any, ctx: SerializationContext) -> bytes | None:
        told.append((value, ctx.topic, ctx.field, list(ctx.headers)))
        ctx.headers.append(("schema", b"1"))
        return value

    def deserialize(data: bytes | None, context: SerializationContext) -> Any:
        told.append((data, context.topic, context.field, context.headers))
        return "none" if data is None else data

    async with Producer(cluster, key_serializer=serialize, value_serializer=serialize) as producer:
        await producer.send("orders", None, key=b"k", headers={"a": b"0"})
    schema, given = ("schema", b"1"), ("a", b"0")
    key, value = MessageField.KEY, MessageField.VALUE
    assert told == [(b"k", "orders", key, [given]), (None, "orders", value, [given, schema])]
    told.clear()
    (found,) = await read(cluster, 1, key_deserializer=deserialize, value_deserializer=deserialize)
    assert (found.key, found.value, found.headers) == (b"k", "none", (given, schema, schema))
    assert [each[:3] for each in told] == [(b"k", "orders", key), (None, "orders", value)]  # type: ignore[index]


async def test_an_error_of_a_serializer_is_that_of_send_and_nothing_is_sent(
    cluster: Cluster,
) -> None:
    async with Producer(cluster, value_serializer=dumps) as producer:
        before = await producer.send("orders", 1)
        with pytest.raises(
            SerializationError, match=r"topic orders: the value .* TypeError"
        ) as info:
            await producer.send("orders", object())
        assert isinstance(info.value.__cause__, TypeError)
        after = await producer.send_and_wait("orders", 2)
        assert ((await before).offset, after.offset) == (0, 1)


async def test_a_serializer_that_does_not_return_bytes_is_an_error(cluster: Cluster) -> None:
    async with Producer[bytes, Any](cluster, value_serializer=lambda value: value) as producer:
        with pytest.raises(SerializationError, match="returned dict, not bytes"):
            await producer.send("orders", {})
        await producer.send_and_wait("orders", bytearray(b"1"))
        assert (await producer.send_and_wait("orders", memoryview(b"2"))).offset == 1


def test_a_serializer_that_is_no_function_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="value_serializer: a function expected, not str"):
        Producer(cluster, value_serializer="json")  # type: ignore[arg-type]


@pytest.mark.parametrize("deserializer", [json.loads, loads_later])
async def test_an_error_of_a_deserializer_is_raised_where_its_record_is_read(
    cluster: Cluster, plain: Producer, deserializer: Any
) -> None:
    await fill(plain, b"1", b"{", b"3")
    first, poison, last = await read(cluster, 3, value_deserializer=deserializer)
    assert (first.value, poison.key, last.value) == (1, b"k", 3)
    for _ in range(2):
        with pytest.raises(
            DeserializationError, match="orders-0 at offset 1: the value is"
        ) as info:
            poison.value  # noqa: B018
    error = info.value
    assert (error.topic_partition, error.offset, error.field, error.data) == (
        ORDERS,
        1,
        "value",
        b"{",
    )
    assert isinstance(error.__cause__, json.JSONDecodeError)
    assert poison.raw.value == b"{"


async def test_batches_have_deserialized_records_and_the_bytes(
    cluster: Cluster, plain: Producer
) -> None:
    await fill(plain, b"1", b"2")
    async with Consumer(cluster, value_deserializer=json.loads) as consumer:
        await consumer.assign([ORDERS])
        batch = await consumer.next_batch(max_wait_ms=5_000)
        assert batch is not None
        assert (
            [each.value for each in batch] == [record.value for record in batch.records] == [1, 2]
        )
        assert batch.to_arrow().column("value").to_pylist() == [b"1", b"2"]


class Gate:
    """A deserializer that waits until it is opened, and counts its calls and cancellations."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.called = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, data: bytes) -> bytes:
        self.called.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return data


async def test_a_wait_for_a_deserializer_that_is_cancelled_loses_nothing(
    cluster: Cluster, plain: Producer
) -> None:
    await fill(plain, b"1", b"2", b"3")
    gate = Gate()
    async with Consumer(cluster, value_deserializer=gate) as consumer:
        await consumer.assign([ORDERS])
        for calls in (1, 2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await anext(consumer)
            assert gate.cancelled == calls
            assert consumer.position(ORDERS) == 0
        gate.opened.set()
        async with asyncio.timeout(60):
            assert [(await anext(consumer)).value for _ in range(3)] == [b"1", b"2", b"3"]


async def test_seeking_meanwhile_is_obeyed(cluster: Cluster, plain: Producer) -> None:
    await fill(plain, b"1", b"2", b"3")
    gate = Gate()
    async with Consumer(cluster, value_deserializer=gate) as consumer:
        await consumer.assign([ORDERS])
        reading = asyncio.ensure_future(anext(consumer))
        await gate.called.wait()
        consumer.seek(ORDERS, 2)
        gate.opened.set()
        async with asyncio.timeout(60):
            assert (await reading).offset == 2


async def test_other_tasks_run_while_a_batch_is_deserialized(
    cluster: Cluster, plain: Producer
) -> None:
    await fill(plain, *[b"1"] * 5)
    turns = 0
    seen = []

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slow(data: bytes) -> bytes:
        seen.append(turns)
        began = time.perf_counter()
        while time.perf_counter() - began < 0.006:
            pass
        return data

    counting = asyncio.create_task(count())
    await read(cluster, 5, value_deserializer=slow)
    counting.cancel()
    assert len(set(seen)) == 5


async def test_a_member_whose_deserializer_hangs_hands_its_partitions_over(
    cluster: Cluster, plain: Producer, broker: Broker
) -> None:
    broker.controller.topics.create("two", 2)
    for partition in range(2):
        await plain.send("two", b"1", partition=partition)
    await plain.flush()
    gate = Gate()
    got = asyncio.Event()

    async def work(generation: Generation, partition: TopicPartition) -> None:
        async for _ in generation.records(partition):
            got.set()

    def member(**options: Any) -> ConsumerGroup:
        return ConsumerGroup("g", topics=["two"], cluster=cluster, **options)

    async with asyncio.timeout(60), member(value_deserializer=gate) as hanging:
        first = asyncio.create_task(hanging.run_until_signal(work, signals=()))
        await gate.called.wait()
        began = asyncio.get_running_loop().time()
        async with member() as other:
            second = asyncio.create_task(other.run_until_signal(work, signals=()))
            await got.wait()
            # On the loop's virtual clock: after a heartbeat, and long before drain_timeout_ms.
            assert asyncio.get_running_loop().time() - began < 10
            other.stop()
            await second
        hanging.stop()
        await first
    assert gate.cancelled > 0


async def test_dead_letters_have_the_bytes_and_the_member_goes_on(
    cluster: Cluster, plain: Producer, broker: Broker
) -> None:
    broker.controller.topics.create("dead", 1)
    await fill(plain, b"1", b"{", b"3")
    seen: list[int] = []

    async def work(
        generation: Generation[bytes, Any], partition: TopicPartition, dead: DeadLetters
    ) -> None:
        async for batch in generation.records(partition):
            for record in batch:
                try:
                    if record.value == 3:
                        raise ValueError("three")
                    seen.append(record.value)
                except (DeserializationError, ValueError) as error:
                    await dead.put(record, error)
            await generation.commit({partition: batch.next_offset})
            if batch.next_offset == 3:
                group.stop()

    async with (
        asyncio.timeout(30),
        Producer(cluster, value_serializer=dumps) as producer,
        ConsumerGroup(
            "g", topics=["orders"], cluster=cluster, value_deserializer=json.loads
        ) as group,
    ):
        dead = DeadLetters(producer, topic="dead")
        await group.run_until_signal(work, dead, signals=())
        assert group.statistics()["rebalances"] == 1
    assert (seen, dead.count) == ([1], 2)
    async with Consumer(cluster) as consumer:
        await consumer.assign_topics("dead")
        assert [(await anext(consumer)).value for _ in range(2)] == [b"{", b"3"]
