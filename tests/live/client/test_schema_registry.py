"""Schemas of a registry: formats, both directions with confluent-kafka, and errors."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer

from kohort.client import (
    ClientConfig,
    Consumer,
    DeserializationError,
    Producer,
    Record,
    SerializationError,
    TopicPartition,
)
from kohort.client.cluster.cluster import Cluster
from kohort.client.schema_registry import SchemaRegistry, SchemaRegistryError
from kohort.server.broker import Broker
from peers.apicurio import apicurio, missing_tools
from peers.schema_registry import SchemaRegistryStandIn

NEEDED = "schema registries need pip install 'kohort[registry]'"
schema_registry = pytest.importorskip("confluent_kafka.schema_registry", reason=NEEDED)
avro = pytest.importorskip("confluent_kafka.schema_registry.avro", reason=NEEDED)
json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema", reason=NEEDED)
protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf", reason=NEEDED)
message_factory = pytest.importorskip("google.protobuf.message_factory", reason=NEEDED)
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason=NEEDED)
descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool", reason=NEEDED)

ORDERS = TopicPartition("orders", 0)
TOPIC = {"subject.name.strategy.type": "TOPIC"}
"""Else confluent-kafka's producer waits for a broker while it holds the lock of the interpreter."""
ORDER = {"item": "tea", "price": 3}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "price", "type": "long"}],
    }
)
WITH_SELLER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [*json.loads(AVRO)["fields"], {"name": "seller", "type": "string"}],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"item": {"type": "string"}, "price": {"type": "integer"}},
        "required": ["item"],
    }
)


def order_message() -> Any:
    """The class of the second message of a file, whose index the wire format has."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", syntax="proto3")
    file.message_type.add(name="Item")
    message = file.message_type.add(name="Order")
    kinds = {"item": "TYPE_STRING", "price": "TYPE_INT64"}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, type=kind, label="LABEL_OPTIONAL")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


Order = order_message()


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 1)


@pytest.fixture
def standin() -> Iterator[SchemaRegistryStandIn]:
    with SchemaRegistryStandIn() as running:
        yield running


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    if reason := missing_tools():
        pytest.skip(reason)
    with apicurio() as url:
        yield url


@pytest.fixture(params=["standin", pytest.param("judge", marks=pytest.mark.clients)])
def url(request: pytest.FixtureRequest) -> str:
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else str(found.url)


@pytest.fixture
async def registry(url: str) -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry(url) as opened:
        yield opened


async def read(cluster: Cluster, count: int, deserializer: Any) -> list[Record[bytes, Any]]:
    async with (
        asyncio.timeout(30),
        Consumer(cluster, value_deserializer=deserializer) as consumer,
    ):
        await consumer.assign([ORDERS])
        return [await anext(consumer) for _ in range(count)]


def formats(registry: SchemaRegistry) -> dict[str, tuple[Any, Any, Any]]:
    """Serializer, deserializer and a value of each format."""
    return {
        "avro": (registry.avro_serializer(AVRO), registry.avro_deserializer(), ORDER),
        "json": (
            registry.json_schema_serializer(JSON),
            registry.json_schema_deserializer(JSON),
            ORDER,
        ),
        "protobuf": (
            registry.protobuf_serializer(Order),
            registry.protobuf_deserializer(Order),
            Order(**ORDER),
        ),
    }


def confluents(client: Any) -> dict[str, tuple[Any, Any]]:
    """Serializer and deserializer of confluent-kafka's blocking clients."""
    return {
        "avro": (
            avro.AvroSerializer(client, AVRO, conf=TOPIC),
            avro.AvroDeserializer(client, conf=TOPIC),
        ),
        "json": (
            json_schema.JSONSerializer(JSON, client, conf=TOPIC),
            json_schema.JSONDeserializer(JSON, schema_registry_client=client, conf=TOPIC),
        ),
        "protobuf": (
            protobuf.ProtobufSerializer(Order, client, TOPIC),
            protobuf.ProtobufDeserializer(Order, TOPIC, client),
        ),
    }


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
async def test_records_go_both_ways_between_confluent_kafka_and_us(
    cluster: Cluster, config: ClientConfig, registry: SchemaRegistry, url: str, name: str
) -> None:
    serializer, deserializer, value = formats(registry)[name]
    async with Producer(cluster, value_serializer=serializer) as producer:
        await producer.send_and_wait("orders", value)
        await producer.send_and_wait("orders", None)

    def by_confluent() -> list[Any]:
        theirs, back = confluents(schema_registry.SchemaRegistryClient({"url": url}))[name]
        sending = SerializingProducer(
            {"bootstrap.servers": config.bootstrap, "value.serializer": theirs}
        )
        sending.produce("orders", value=value)
        assert sending.flush(30) == 0
        reading = DeserializingConsumer(
            {
                "bootstrap.servers": config.bootstrap,
                "group.id": "theirs",
                "auto.offset.reset": "earliest",
                "value.deserializer": back,
            }
        )
        reading.subscribe(["orders"])
        found: list[Any] = []
        while len(found) < 3:
            message = reading.poll(30)
            found.append(message.value())
        reading.close()
        return found

    assert await asyncio.to_thread(by_confluent) == [value, None, value]
    assert [each.value for each in await read(cluster, 3, deserializer)] == [value, None, value]


async def test_the_wire_format_is_confluents(cluster: Cluster, registry: SchemaRegistry) -> None:
    async with Producer(cluster, value_serializer=registry.avro_serializer(AVRO)) as producer:
        await producer.send_and_wait("orders", ORDER)
    async with Producer(cluster, value_serializer=registry.protobuf_serializer(Order)) as producer:
        await producer.send_and_wait("orders", Order(**ORDER))
    avro, protobuf = await read(cluster, 2, None)
    assert avro.value is not None
    assert protobuf.value is not None
    number = (await registry.client.get_latest_version("orders-value")).schema_id
    assert avro.value[0] == 0
    assert avro.value[5:] == b"\x06tea\x06"
    assert struct.unpack(">bI", protobuf.value[:5]) == (0, number)
    assert protobuf.value[5:7] == b"\x02\x02", "one index, of the second message"


async def test_schemas_are_requested_once(cluster: Cluster, standin: SchemaRegistryStandIn) -> None:
    async with SchemaRegistry(standin.url) as registry:
        serializer, deserializer, value = formats(registry)["avro"]
        async with Producer(cluster, value_serializer=serializer) as producer:
            for _ in range(3):
                await producer.send("orders", value)
        await read(cluster, 3, deserializer)
        async with SchemaRegistry(standin.url) as other:
            await read(cluster, 3, other.avro_deserializer())
    assert standin.requests == [
        ("POST", "/subjects/orders-value/versions"),
        ("GET", "/schemas/ids/1"),
    ]


async def test_options_are_those_of_confluent_kafka(
    cluster: Cluster, registry: SchemaRegistry
) -> None:
    only_known = registry.avro_serializer(AVRO, options={"auto.register.schemas": False})
    by_record = registry.avro_serializer(
        AVRO, options={"subject.name.strategy": schema_registry.record_subject_name_strategy}
    )
    async with Producer(cluster, value_serializer=only_known) as producer:
        with pytest.raises(SerializationError, match=r"HTTP status code 404.*register the schema"):
            await producer.send("unregistered", ORDER)
    async with Producer(cluster, value_serializer=by_record) as producer:
        await producer.send_and_wait("orders", ORDER)
    assert (await registry.client.get_latest_version("Order")).version == 1


async def test_dicts_from_and_to_objects(cluster: Cluster, registry: SchemaRegistry) -> None:
    serializer = registry.avro_serializer(
        AVRO, to_dict=lambda pair, _: {"item": pair[0], "price": pair[1]}
    )
    deserializer = registry.avro_deserializer(from_dict=lambda found, _: tuple(found.values()))
    async with Producer(cluster, value_serializer=serializer) as producer:
        await producer.send_and_wait("orders", ("tea", 3))
    assert (await read(cluster, 1, deserializer))[0].value == ("tea", 3)


# --- errors


async def test_an_incompatible_schema_is_refused(
    broker: Broker, cluster: Cluster, registry: SchemaRegistry, url: str
) -> None:
    broker.controller.topics.create("priced", 1)
    async with Producer(cluster, value_serializer=registry.avro_serializer(AVRO)) as producer:
        await producer.send_and_wait("priced", ORDER)
    await registry.client.set_compatibility("priced-value", "BACKWARD")
    serializer = registry.avro_serializer(WITH_SELLER)
    async with Producer(cluster, value_serializer=serializer) as producer:
        with pytest.raises(SerializationError, match=rf"{url}.*status code 409.*not compatible"):
            await producer.send("priced", ORDER | {"seller": "me"})


async def test_a_value_that_the_schema_does_not_allow(
    cluster: Cluster, registry: SchemaRegistry
) -> None:
    async with Producer(cluster, value_serializer=registry.avro_serializer(AVRO)) as producer:
        with pytest.raises(SerializationError, match="price"):
            await producer.send("orders", {"item": "tea"})


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\0\0\0\x27\x0f\x06", "status code 404.*written with another registry"),
        (b'{"item": 1}', "not in Confluent's wire format"),
        (b"{}", "not in Confluent's wire format"),
    ],
)
async def test_bytes_that_are_not_of_the_registry(
    cluster: Cluster, registry: SchemaRegistry, url: str, data: bytes, told: str
) -> None:
    async with Producer(cluster) as producer:
        await producer.send_and_wait("orders", data)
    (record,) = await read(cluster, 1, registry.avro_deserializer())
    with pytest.raises(DeserializationError, match=rf"orders-0 at offset 0: .*{url}: .*{told}"):
        record.value  # noqa: B018
    assert record.raw.value == data


async def test_a_registry_that_is_away_is_told_once_for_all_records_of_a_schema(
    cluster: Cluster,
) -> None:
    async with Producer(cluster) as producer:
        for _ in range(500):
            await producer.send("orders", b"\0\0\0\0\x01\x06tea\x06")
    with SchemaRegistryStandIn() as gone:
        pass
    async with SchemaRegistry(gone.url, options={"max.retries": 0}) as registry:
        records = await read(cluster, 500, registry.avro_deserializer())
        attempts = 0
        for record in records:
            with pytest.raises(DeserializationError, match=f"{gone.url}: unreachable") as info:
                record.value  # noqa: B018
            assert info.value.__cause__ is not None
            attempts += info.value.__cause__.__cause__ is not None
    assert attempts == 1


async def test_the_registry_needs_the_right_credentials(cluster: Cluster) -> None:
    with SchemaRegistryStandIn(basic_auth=("me", "secret")) as running:
        async with (
            SchemaRegistry(running.url, basic_auth=("me", "secret")) as right,
            SchemaRegistry(running.url.replace("//", "//me:wrong@")) as wrong,
        ):
            async with Producer(cluster, value_serializer=right.avro_serializer(AVRO)) as producer:
                await producer.send_and_wait("orders", ORDER)
            (record,) = await read(cluster, 1, wrong.avro_deserializer())
            with pytest.raises(DeserializationError, match=r"401.*check basic_auth") as info:
                record.value  # noqa: B018
            assert "wrong" not in str(info.value)
    assert isinstance(info.value.__cause__, SchemaRegistryError)


async def test_the_registry_is_verified_by_ssl_cafile(
    cluster: Cluster, certificate: tuple[Path, Path]
) -> None:
    with SchemaRegistryStandIn(certificate=certificate) as running:
        async with (
            SchemaRegistry(running.url, ssl_cafile=str(certificate[0])) as trusting,
            SchemaRegistry(running.url, options={"max.retries": 0}) as wary,
        ):
            async with Producer(
                cluster, value_serializer=trusting.avro_serializer(AVRO)
            ) as producer:
                await producer.send_and_wait("orders", ORDER)
            (record,) = await read(cluster, 1, wary.avro_deserializer())
            with pytest.raises(DeserializationError, match=r"unreachable .*; set ssl_cafile"):
                record.value  # noqa: B018
