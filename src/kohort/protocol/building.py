"""Builds kio's message of one version from values that are independent of versions.

A handler builds a response once, and fields that a version lacks are dropped here. kio's classes
need durations as timedelta, timestamps as datetime and errors as `ErrorCode`; here ms and numbers
are accepted.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, TypeAlias

from kio.static.constants import uuid_zero

from kohort.errors import ErrorCode
from kohort.protocol.message_classes import (
    known_versions,
    load_request_schema,
    load_response_schema,
)
from kohort.protocol.schema import Shape, shape

_Convert: TypeAlias = Callable[[Any], Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZEROS: Final = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "uuid": uuid_zero,
}


def response(api_key: int, version: int, /, **values: Any) -> Any:
    """kio's response of that version, from plain values.

    - Nested structs are mappings (or kio's own), arrays any iterable, errors `ErrorCode` or int.
    - Durations and timestamps are int in ms. A duration `x_ms` of Kafka's schema may be passed by
      that name or by kio's `x`. An absent timestamp is -1 or None.
    - A field that the version lacks is dropped. A field without a value takes the schema's default.

    Raises TypeError for a name that no version has.
    """
    return _builder(load_response_schema(api_key, version))(values)


def request(api_key: int, version: int, /, **values: Any) -> Any:
    """kio's request of that version, from plain values as `response` takes them."""
    return _builder(load_request_schema(api_key, version))(values)


@cache
def _builder(entity_type: Any) -> Callable[[Any], Any]:
    names: dict[str, tuple[str, _Convert | None]] = {}
    for field in fields(entity_type):
        names[field.name] = names[f"{field.name}_ms"] = (field.name, _field_converter(shape(field)))
    defaults = {field.name: default(field) for field in fields(entity_type)}

    def build(values: Mapping[str, Any]) -> Any:
        if isinstance(values, entity_type):
            return values
        arguments = defaults.copy()
        for argument, value in values.items():
            if argument in names:
                name, convert = names[argument]
                arguments[name] = value if convert is None else convert(value)
            elif not _is_of_another_version(entity_type, argument):
                raise TypeError(f"{entity_type.__name__} has no field {argument!r} in any version")
        return entity_type(**arguments)

    return build


@cache
def _is_of_another_version(entity_type: Any, name: str) -> bool:
    """Whether this struct has that field, or its `_ms` form, in any version.

    The nearest versions come first and no version is loaded needlessly, because that takes
    milliseconds.
    """
    api_key, built_version = entity_type.__api_key__, entity_type.__version__
    load = (
        load_request_schema if entity_type.__module__.endswith(".request") else load_response_schema
    )
    first, last = known_versions(api_key)
    for version in sorted(range(first, last + 1), key=lambda version: abs(version - built_version)):
        if name in _names(load(api_key, version), entity_type.__name__):
            return True
    return False


def _names(message_type: Any, struct: str) -> set[str]:
    """Field names, and their `_ms` forms, of the structs of that name in a message."""
    # kio calls OffsetFetch's structs Topic and Topics by version
    same = [
        struct_type
        for struct_type in _structs(message_type)
        if struct_type.__name__.rstrip("s") == struct.rstrip("s")
    ]
    names = {field.name for struct_type in same for field in fields(struct_type)}
    return names | {f"{name}_ms" for name in names}


def _structs(entity_type: Any) -> list[Any]:
    nested = [
        field_shape.inner
        for field_shape in map(shape, fields(entity_type))
        if field_shape.is_struct
    ]
    return [entity_type, *(nested_type for inner in nested for nested_type in _structs(inner))]


def _field_converter(field_shape: Shape) -> _Convert | None:
    convert = _value_converter(field_shape)
    if not field_shape.is_array:
        return convert
    if convert is None:
        return lambda items: None if items is None else tuple(items)
    return lambda items: None if items is None else tuple(map(convert, items))


def _value_converter(field_shape: Shape) -> _Convert | None:
    if field_shape.is_struct:
        build = _builder(field_shape.inner)
        return lambda value: None if value is None else build(value)
    if field_shape.kafka_type == "error_code":
        return _error_code
    if field_shape.kafka_type.startswith("timedelta"):
        return _duration
    if field_shape.kafka_type == "datetime_i64":
        return _timestamp_or_none if field_shape.nullable else _timestamp
    return None


def _error_code(value: int) -> ErrorCode:
    return value if isinstance(value, ErrorCode) else ErrorCode(value)


def _duration(value: int | timedelta) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=value)


def _timestamp(value: int | datetime) -> datetime:
    return value if isinstance(value, datetime) else _EPOCH + timedelta(milliseconds=value)


def _timestamp_or_none(value: int | datetime | None) -> datetime | None:
    """None for what Kafka writes as -1."""
    return None if value is None or value == -1 else _timestamp(value)


def default(field: "Field[Any]") -> Any:
    """The schema's default, else null, empty or zero."""
    if field.default is not MISSING:
        return field.default
    field_shape = shape(field)
    if field_shape.is_array:
        return ()
    if field_shape.nullable:
        return None
    if field_shape.is_struct:
        return _builder(field_shape.inner)({})
    convert = _value_converter(field_shape)
    return _ZEROS.get(field_shape.kafka_type, 0) if convert is None else convert(0)
