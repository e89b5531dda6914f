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
    has_bytes = any(shape(each).kafka_type in _COPIED for each in fields(entity_type))
    if not has_arrays(entity_type) and not has_bytes:
        read_whole: ReadStep = entity_reader(entity_type)
        return read_whole
    flexible = entity_type.__flexible__
    plain = [each for each in fields(entity_type) if "tag" not in each.metadata]
    steps = [(each.name, _field_reader(entity_type, each, flexible)) for each in plain]
    tagged: dict[int, tuple[str, ReadStep]] = {
        each.metadata["tag"]: (each.name, get_field_reader(entity_type, each, False, True))
        for each in fields(entity_type)
        if "tag" in each.metadata
    }

    def read(data: bytes, start: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        at = start
        for name, step in steps:
            values[name], size = step(data, at)
            at += size
        if flexible:
            at = _read_tags(data, at, tagged, values)
        return entity_type(**values), at - start

    return read


def _field_reader(entity_type: Any, field: "Field[Any]", flexible: bool) -> ReadStep:
    of = shape(field)
    if of.is_array and (of.is_struct or of.kafka_type == "string"):
        return _array_reader(of, flexible)
    if of.kafka_type in _COPIED:
        return _bytes_reader(flexible, _COPIED[of.kafka_type])
    if of.is_struct and has_arrays(of.inner):
        read = stepwise_reader(of.inner)
        return _nullable_reader(read) if of.nullable else read
    read_native: ReadStep = get_field_reader(entity_type, field, False, False)
    return read_native


def _array_reader(of: Shape, flexible: bool) -> ReadStep:
    read_element: ReadStep = (
        stepwise_reader(of.inner) if of.is_struct else get_reader(of.kafka_type, flexible, False)
    )

    def read(data: bytes, start: int) -> tuple[Any, int]:
        count, at = _count(data, start, flexible)
        if count < 0:
            return None, at - start
        elements = []
        for _ in range(count):
            element, size = read_element(data, at)
            elements.append(element)
            at += size
        return tuple(elements), at - start

    return read


def _bytes_reader(flexible: bool, copied: int) -> ReadStep:
    """Reads bytes: up to so many are copied, more are a view."""

    def read(data: bytes, start: int) -> tuple[bytes | memoryview | None, int]:
        size, at = _count(data, start, flexible)
        if size < 0:
            return None, at - start
        end = at + size
        return data[at:end] if size <= copied else memoryview(data)[at:end], end - start

    return read


def _count(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, at = read_varint(data, at)
        return count - 1, at
    return int.from_bytes(data[at : at + 4], "big", signed=True), at + 4


def _nullable_reader(read_struct: ReadStep) -> ReadStep:
    """KIP-893: a byte before the struct says whether it is null."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if data[at] == _NULL_STRUCT:
            return None, 1
        value, size = read_struct(data, at + 1)
        return value, size + 1

    return read


def _read_tags(
    data: bytes, at: int, tagged: dict[int, tuple[str, ReadStep]], values: dict[str, Any]
) -> int:
    """Read tagged fields, all of which are known, into `values`; returns the offset behind them."""
    count, at = read_varint(data, at)
    for _ in range(count):
        tag, at = read_varint(data, at)
        _, at = read_varint(data, at)
        name, read = tagged[tag]
        values[name], size = read(data, at)
        at += size
    return at
