"""Protobuf columns with the schemas of a registry, in Confluent's wire format.

    from kohort.spark.protobuf import from_protobuf, to_protobuf
    from orders_pb2 import Order

    order = from_protobuf("value", "http://localhost:8081", "item string, price long", Order)
    orders.select(order.alias("order")).select("order.*")

The generated class is needed where the query is planned, and not on the workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from kohort.client.schema_registry import SchemaRegistry
from kohort.spark.registry_columns import Field, Format, Registry, conversion, decoded, encoded

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

__all__ = ["from_protobuf", "to_protobuf"]


@dataclass(frozen=True, slots=True)
class _Protobuf(Format):
    """A generated class, as the descriptors of its file and of those that it imports."""

    name: str
    files: tuple[bytes, ...]

    @classmethod
    def of(cls, message: type[Any]) -> Self:
        descriptor = message.DESCRIPTOR
        return cls(descriptor.full_name, tuple(dict.fromkeys(_files(descriptor.file))))

    def deserializer(self, registry: SchemaRegistry) -> Any:
        return registry.protobuf_deserializer(_message(self.name, self.files))

    def serializer(self, registry: SchemaRegistry, options: Mapping[str, Any]) -> Any:
        return registry.protobuf_serializer(_message(self.name, self.files), options=options)

    def to_dict(self, value: Any) -> Any:
        return {field.name: _content(value, field) for field in value.DESCRIPTOR.fields}

    def from_dict(self, row: dict[str, Any]) -> Any:
        return _message(self.name, self.files)(**_without_nulls(row))


def _files(file: Any) -> list[bytes]:
    """The descriptors of a file, those of its imports first."""
    return [*(descriptor for imported in file.dependencies for descriptor in _files(imported)),
            file.serialized_pb]  # fmt: skip


@cache
def _message(name: str, files: tuple[bytes, ...]) -> type[Any]:
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pool,
        message_factory,
    )

    pool = descriptor_pool.DescriptorPool()
    for descriptor in files:
        pool.AddSerializedFile(descriptor)
    message: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return message


def _content(message: Any, field: Any) -> Any:
    """A field as plain Python; None for a field with presence that is not set."""
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name["value"]
        return {key: _single(value[key], entry) for key in value}
    return [_single(item, field) for item in value] if field.is_repeated else _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return str(value) if enum_value is None else enum_value.name
    if field.message_type is None:
        return value
    return {member.name: _content(value, member) for member in field.message_type.fields}


def _without_nulls(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _without_nulls(value) for name, value in row.items() if value is not None}
    return [_without_nulls(item) for item in row] if isinstance(row, list) else row


def from_protobuf(
    column: "Column | str", registry: Registry, schema: "str | StructType", message: type[Any]
) -> "Column":
    """A struct with the fields of `schema` (Spark's: DDL or a StructType), null for a null.

    Enums are their names. A value that is not in the wire format, is no such message, or does not
    fit `schema`, has its bytes in `_corrupt_record` and the error in `_corrupt_reason`. An error of
    the registry fails the task.
    """
    return decoded(column, schema, conversion(registry, _Protobuf.of(message)))


def to_protobuf(
    column: "Column | str",
    registry: Registry,
    message: type[Any],
    *,
    topic: str,
    field: Field = "value",
    options: Mapping[str, Any] | None = None,
) -> "Column":
    """Binary of a struct whose fields are called like those of `message`.

    Null fields are not set. The subject is that of `topic` and `field`; `options` are
    confluent-kafka's of its serializer. A row that the message does not allow fails the task.
    """
    return encoded(column, conversion(registry, _Protobuf.of(message), topic, field, options))
