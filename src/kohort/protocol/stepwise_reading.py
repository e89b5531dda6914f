"""Reads large messages in many short steps, for a thread beside the event loop.

kio's native reader holds the interpreter until the whole message is read: 350 ms for 500,000
topics. The other threads of the process stand still meanwhile. Here Python walks over the arrays
of structs and of strings, and kio reads their elements one by one. The interpreter can change
threads between any two of them. Records and long bytes are not copied, which would take 45 ms for
100 MiB: they are views of the message.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from typing import Any, Final, TypeAlias

from kio.serial import entity_reader
from kio.serial._parse import get_field_reader, get_reader

from kohort.protocol.bounds_check import has_arrays
from kohort.protocol.packing import read_varint
from kohort.protocol.schema import Shape, shape

ReadStep: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""(data, offset) -> (value, size in bytes)."""

_NULL_STRUCT: Final = 0xFF
_COPIED: Final = {"records": 0, "bytes": 1 << 20}
"""Fields of any length, and the bytes of one up to which it is copied."""


@cache
def stepwise_reader(entity_type: Any) -> ReadStep:
    """A function that reads messages of this class, which `bounds_check` or `normalized` passed."""
    has_bytes = any(shape(field).kafka_type in _COPIED for field in fields(entity_type))
    if not has_arrays(entity_type) and not has_bytes:
        read_whole: ReadStep = entity_reader(entity_type)
        return read_whole
    flexible = entity_type.__flexible__
    plain = [field for field in fields(entity_type) if "tag" not in field.metadata]
    steps = [(field.name, _field_reader(entity_type, field, flexible)) for field in plain]
    tagged: dict[int, tuple[str, ReadStep]] = {
        field.metadata["tag"]: (field.name, get_field_reader(entity_type, field, False, True))
        for field in fields(entity_type)
        if "tag" in field.metadata
    }

    def read(data: bytes, start: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        position = start
        for name, step in steps:
            values[name], size = step(data, position)
            position += size
        if flexible:
            position = _read_tags(data, position, tagged, values)
        return entity_type(**values), position - start

    return read


def _field_reader(entity_type: Any, field: "Field[Any]", flexible: bool) -> ReadStep:
    field_shape = shape(field)
    if field_shape.is_array and (field_shape.is_struct or field_shape.kafka_type == "string"):
        return _array_reader(field_shape, flexible)
    if field_shape.kafka_type in _COPIED:
        return _bytes_reader(flexible, _COPIED[field_shape.kafka_type])
    if field_shape.is_struct and has_arrays(field_shape.inner):
        read = stepwise_reader(field_shape.inner)
        return _nullable_reader(read) if field_shape.nullable else read
    read_native: ReadStep = get_field_reader(entity_type, field, False, False)
    return read_native


def _array_reader(field_shape: Shape, flexible: bool) -> ReadStep:
    read_element: ReadStep = (
        stepwise_reader(field_shape.inner)
        if field_shape.is_struct
        else get_reader(field_shape.kafka_type, flexible, False)
    )

    def read(data: bytes, start: int) -> tuple[Any, int]:
        count, position = _count(data, start, flexible)
        if count < 0:
            return None, position - start
        elements = []
        for _ in range(count):
            element, size = read_element(data, position)
            elements.append(element)
            position += size
        return tuple(elements), position - start

    return read


def _bytes_reader(flexible: bool, copied: int) -> ReadStep:
    """Reads bytes: up to so many are copied, more are a view."""

    def read(data: bytes, start: int) -> tuple[bytes | memoryview | None, int]:
        size, position = _count(data, start, flexible)
        if size < 0:
            return None, position - start
        end = position + size
        return data[position:end] if size <= copied else memoryview(data)[position:end], end - start

    return read


def _count(data: bytes, position: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, position = read_varint(data, position)
        return count - 1, position
    return int.from_bytes(data[position : position + 4], "big", signed=True), position + 4


def _nullable_reader(read_struct: ReadStep) -> ReadStep:
    """KIP-893: a byte before the struct says whether it is null."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if data[position] == _NULL_STRUCT:
            return None, 1
        value, size = read_struct(data, position + 1)
        return value, size + 1

    return read


def _read_tags(
    data: bytes, position: int, tagged: dict[int, tuple[str, ReadStep]], values: dict[str, Any]
) -> int:
    """Read tagged fields, all of which are known, into `values`; returns the offset behind them."""
    count, position = read_varint(data, position)
    for _ in range(count):
        tag, position = read_varint(data, position)
        _, position = read_varint(data, position)
        name, read = tagged[tag]
        values[name], size = read(data, position)
        position += size
    return position
