"""Columns in the wire format of a schema registry, converted in Spark's Python workers.

`kohort.spark.avro`, `kohort.spark.json_schema` and `kohort.spark.protobuf` have the functions for
queries. The work is done by `kohort.client.schema_registry`, on the loop of `background`: a worker
keeps its registries, and with them the schemas.

A value that cannot be decoded does not end the query: the struct then has its bytes in CORRUPT, the
error in REASON, and null in all other fields. An error of the registry itself (unreachable,
refused) fails the task, because the value may be sound.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.client.concurrency import BackgroundLoop, background_loop
from kohort.client.schema_registry import SchemaRegistry, SchemaRegistryError, UnknownSchemaError
from kohort.client.serialization import SerializationContext
from kohort.spark import background, workers

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt_record"
REASON: Final = "_corrupt_reason"

_UNFIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
"""Errors of Arrow and `_fitted` for an object of another type."""

Registry: TypeAlias = str | Mapping[str, Any]
"""A URL, or arguments of `SchemaRegistry` by name: `url`, `basic_auth`, `ssl_cafile`, …"""
Field: TypeAlias = Literal["key", "value"]


class Format(Protocol):
    """How one format is converted; picklable."""

    def deserializer(self, registry: SchemaRegistry) -> Any: ...

    def serializer(self, registry: SchemaRegistry, options: Mapping[str, Any]) -> Any: ...

    def to_dict(self, value: Any) -> Any:
        """The deserialized value as a dict."""
        return value

    def from_dict(self, row: dict[str, Any]) -> Any:
        """The argument of the serializer."""
        return row


@dataclass(frozen=True, slots=True)
class Conversion:
    """Picklable settings of a UDF."""

    registry: tuple[tuple[str, Any], ...]
    format: Format
    topic: str
    """Of the subject's name, for serializers."""
    field: Field
    options: tuple[tuple[str, Any], ...]
    """confluent-kafka's, of its serializer."""

    def _open_registry(self) -> SchemaRegistry:
        return SchemaRegistry(**dict(self.registry))

    def deserializer(self) -> Any:
        return self.format.deserializer(self._open_registry())

    def serializer(self) -> Any:
        return self.format.serializer(self._open_registry(), dict(self.options))

    def context(self) -> SerializationContext:
        return SerializationContext(self.topic, self.field, [])


def conversion(
    registry: Registry,
    form: Format,
    topic: str = "",
    field: Field = "value",
    options: Mapping[str, Any] | None = None,
) -> Conversion:
    """The Conversion of a registry that is a URL or arguments."""
    settings = {"url": registry} if isinstance(registry, str) else registry
    return Conversion(_items(settings), form, topic, field, _items(options or {}))


def _items(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(settings.items()))


_functions: Final[dict[tuple[BackgroundLoop, str, bytes], Any]] = {}
"""Open functions of each loop, by pickled conversions: a process that is forked has another loop.
"""


def _function(conversion: Conversion, kind: Literal["serializer", "deserializer"]) -> Any:
    name = background_loop(), kind, pickle.dumps(conversion)
    if name not in _functions:
        _functions[name] = getattr(conversion, kind)()
    return _functions[name]


def decoded(column: "Column | str", schema: "str | StructType", conversion: Conversion) -> "Column":
    """A struct with the fields of `schema`, CORRUPT and REASON; null for a null."""
    from pyspark.sql.types import BinaryType, StringType, StructType

    fields: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    result = StructType(list(fields)).add(CORRUPT, BinaryType()).add(REASON, StringType())

    def decode(values: pa.Array) -> pa.Array:
        return decode_values(values, result, conversion)

    return _udf(decode, result, column)


def encoded(column: "Column | str", conversion: Conversion) -> "Column":
    """Binary; null for a null. A row that the schema does not allow fails the task."""

    def encode(rows: pa.Array) -> pa.Array:
        return encode_rows(rows, conversion)

    return _udf(encode, "binary", column)


def _udf(function: Any, result: "StructType | str", column: "Column | str") -> "Column":
    from pyspark.sql import functions

    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]  # not in PySpark's stubs
    udf: Column = arrow_udf(function, result)(column)
    return udf


def decode_values(values: pa.Array, result: "StructType", conversion: Conversion) -> pa.Array:
    """Decode one batch of `decoded`. Raises SchemaRegistryError."""
    from pyspark.sql.pandas.types import to_arrow_type

    workers.settle()
    data = values.to_pylist()
    rows = background.run(_decoded(data, conversion))
    form = to_arrow_type(result, timezone="UTC")
    try:
        return pa.array(rows, form)
    except _UNFIT:
        return pa.concat_arrays(
            [_array_of_one(row, content, form) for row, content in zip(rows, data, strict=True)]
        )


def encode_rows(rows: pa.Array, conversion: Conversion) -> pa.Array:
    """Encode one batch of `encoded`. Raises SchemaRegistryError, and the serializer's errors."""
    workers.settle()
    return pa.array(
        background.run(_encoded(rows.to_pylist(maps_as_pydicts="strict"), conversion)), pa.binary()
    )


async def _decoded(
    data: Sequence[bytes | None], conversion: Conversion
) -> list[dict[str, Any] | None]:
    deserialize, context = _function(conversion, "deserializer"), conversion.context()
    rows: list[dict[str, Any] | None] = []
    for content in data:
        try:
            value = await deserialize(content, context)
            rows.append(None if value is None else conversion.format.to_dict(value))
        except UnknownSchemaError as error:
            rows.append(_corrupt(content, error))
        except SchemaRegistryError:
            raise
        except Exception as error:
            rows.append(_corrupt(content, error))
    return rows


async def _encoded(
    rows: Sequence[dict[str, Any] | None], conversion: Conversion
) -> list[bytes | None]:
    serialize, context = _function(conversion, "serializer"), conversion.context()
    return [
        None if row is None else await serialize(conversion.format.from_dict(row), context)
        for row in rows
    ]


def _corrupt(content: bytes | None, error: Exception) -> dict[str, Any]:
    return {CORRUPT: content, REASON: f"{type(error).__name__}: {error}"}


def _array_of_one(row: Any, content: bytes | None, form: pa.DataType) -> pa.Array:
    """One row: converted if Arrow cannot take the object, corrupt if that fails too."""
    try:
        return pa.array([_fitted(row, form)], form)
    except _UNFIT as error:
        return pa.array([_corrupt(content, error)], form)


def _fitted(value: Any, form: pa.DataType) -> Any:
    """Maps as pairs, and UUIDs and the like as text, which Arrow does not convert by itself."""
    if value is None:
        return None
    if pa.types.is_struct(form):
        return {field.name: _fitted(value.get(field.name), field.type) for field in form}
    if pa.types.is_list(form):
        return [_fitted(item, form.value_type) for item in value]
    if pa.types.is_map(form):
        return [(key, _fitted(item, form.item_type)) for key, item in dict(value).items()]
    if pa.types.is_string(form) and not isinstance(value, str | bytes | int | float):
        return str(value)
    return value
