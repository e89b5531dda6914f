"""Columns in the wire format of a schema registry: Avro, JSON Schema and Protobuf."""

import json
import uuid
from datetime import date

import pytest

from kohort.spark.avro import from_avro, to_avro
from kohort.spark.json_schema import from_json_schema, to_json_schema
from kohort.spark.protobuf import from_protobuf, to_protobuf
from peers.schema_registry import SchemaRegistryStandIn

NEEDED = "schema registries need pip install 'kohort[registry]'"
pytest.importorskip("confluent_kafka.schema_registry.avro", reason=NEEDED)
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason=NEEDED)
descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool", reason=NEEDED)
message_factory = pytest.importorskip("google.protobuf.message_factory", reason=NEEDED)
timestamp_pb2 = pytest.importorskip("google.protobuf.timestamp_pb2", reason=NEEDED)

pytestmark = pytest.mark.clients

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "prices", "type": {"type": "map", "values": "long"}},
            {"name": "items", "type": {"type": "array", "items": "string"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
DDL = "id string, day date, prices map<string, long>, items array<string>, note string"
JSON = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"item": {"type": "string"}, "price": {"type": "integer"}},
        "required": ["item"],
    }
)


@pytest.fixture
def registry():
    with SchemaRegistryStandIn() as running:
        yield running


def order_message():
    """A message with an imported one, an enum, and fields that know whether they are set."""
    file = descriptor_pb2.FileDescriptorProto(
        name="spark_orders.proto", syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )  # fmt: skip
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    message = file.message_type.add(name="SparkOrder")
    message.field.add(name="item", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    message.field.add(name="prices", number=2, type="TYPE_INT64", label="LABEL_REPEATED")
    message.field.add(
        name="state", number=3, type="TYPE_ENUM", type_name=".State", label="LABEL_OPTIONAL"
    )
    message.field.add(
        name="at", number=4, type="TYPE_MESSAGE", type_name=".google.protobuf.Timestamp",
        label="LABEL_OPTIONAL",
    )  # fmt: skip
    pool = descriptor_pool.Default()
    assert timestamp_pb2.DESCRIPTOR.name == file.dependency[0]
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("SparkOrder"))


def with_corrupt(frame):
    """The encoded column, a null, and bytes that are none of the format."""
    more = frame.sparkSession.createDataFrame([(None,), (b"broken",)], "encoded binary")
    return frame.unionAll(more)


def assert_corrupt(rows, *expected):
    """A good row, one of null, and one of bytes that could not be decoded."""
    good, none, corrupt = rows
    assert tuple(good.found)[: len(expected)] == expected
    assert good.found._corrupt_record is None
    assert none.found is None
    assert corrupt.found._corrupt_record == b"broken"
    assert "not in Confluent's wire format" in corrupt.found._corrupt_reason
    assert {*corrupt.found[:-2]} == {None}


def test_avro_columns_of_a_registry_are_written_and_read(session, registry):
    number = str(uuid.UUID(int=7))
    day = date(2026, 1, 2)
    rows = session.createDataFrame([(number, day, {"a": 1}, ["x", "y"], None)], DDL)
    encoded = rows.selectExpr("struct(*) row").select(
        to_avro("row", registry.url, AVRO, topic="orders").alias("encoded")
    )
    decoded = with_corrupt(encoded).select(from_avro("encoded", registry.url, DDL).alias("found"))
    assert_corrupt(decoded.collect(), number, day, {"a": 1}, ["x", "y"], None)
    assert ("POST", "/subjects/orders-value/versions") in registry.requests


def test_json_schema_columns_of_a_registry_are_written_and_read(session, registry):
    rows = session.createDataFrame([("tea", None)], "item string, price long")
    encoded = rows.selectExpr("struct(*) row").select(
        to_json_schema("row", registry.url, JSON, topic="orders", field="key").alias("encoded")
    )
    decoded = with_corrupt(encoded).select(
        from_json_schema("encoded", registry.url, "item string, price long").alias("found")
    )
    assert_corrupt(decoded.collect(), "tea", None)
    assert ("POST", "/subjects/orders-key/versions") in registry.requests


def test_protobuf_whose_class_the_workers_cannot_import(session, registry):
    message = order_message()
    ddl = "item string, prices array<long>, state string, at struct<seconds: long, nanos: int>"
    rows = session.createDataFrame([("tea", [3, 4], "PAID", None)], ddl)
    encoded = rows.selectExpr("struct(*) row").select(
        to_protobuf("row", registry.url, message, topic="orders").alias("encoded")
    )
    decoded = with_corrupt(encoded).select(
        from_protobuf("encoded", registry.url, ddl, message).alias("found")
    )
    assert_corrupt(decoded.collect(), "tea", [3, 4], "PAID", None)


def test_a_value_that_does_not_fit_the_columns_is_corrupt_and_the_others_are_not(session, registry):
    rows = session.createDataFrame([("tea", 1), ("coffee", 1000)], "item string, price long")
    encoded = rows.selectExpr("struct(*) row").select(
        to_json_schema("row", registry.url, JSON, topic="orders").alias("encoded")
    )
    found = encoded.select(
        from_json_schema("encoded", registry.url, "item string, price tinyint").alias("found")
    ).collect()
    assert [(row.found.item, row.found.price) for row in found] == [("tea", 1), (None, None)]
    assert b"coffee" in found[1].found._corrupt_record
    assert "1000" in found[1].found._corrupt_reason


def test_a_schema_that_the_registry_does_not_have_makes_a_value_corrupt(session, registry):
    frame = session.createDataFrame([(b"\0\0\0\0\7\2",)], "encoded binary")
    (row,) = frame.select(from_avro("encoded", registry.url, "item string").alias("x")).collect()
    assert row.x._corrupt_record == b"\0\0\0\0\7\2"
    assert "the record was written with another registry" in row.x._corrupt_reason


def test_a_registry_that_cannot_be_reached_fails_the_task(session):
    frame = session.createDataFrame([(b"\0\0\0\0\1\2",)], "encoded binary")
    registry = {"url": "http://127.0.0.1:1", "timeout_ms": 500}
    with pytest.raises(Exception, match="check the url, and that the registry runs there"):
        frame.select(from_avro("encoded", registry, "item string")).collect()
