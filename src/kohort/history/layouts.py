"""Readers of Kafka's message format, composed from the layout of a message.

A reader is a function of (data, offset) that returns (value, offset behind it). `struct` composes
readers of fields to a reader of a dict, as Kafka's message schemas do:

    member = struct(("member_id", string), ("timeout", int32))

`flexible` is the same for flexible versions: after its fields come tagged ones.

Readers raise DamagedError, struct.error, IndexError or UnicodeDecodeError (`ERRORS`) for bytes that
do not follow the layout. They never read beyond the data, and never take more memory than it.
"""

import struct as _struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import read_varint

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Field: TypeAlias = tuple[str, Reader]
Tags: TypeAlias = Mapping[int, tuple[str, Reader, Any]]
"""Number of a tagged field → its name, reader, and value if it is absent."""


class DamagedError(ValueError):
    """The bytes do not follow the layout."""


ERRORS: Final = (DamagedError, MalformedError, _struct.error, IndexError, UnicodeDecodeError)


def _number(form: str) -> Reader:
    unpack, size = _struct.Struct(form).unpack_from, _struct.calcsize(form)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return read


int8: Final = _number(">b")
int16: Final = _number(">h")
uint16: Final = _number(">H")
int32: Final = _number(">i")
int64: Final = _number(">q")
_INT16: Final = _struct.Struct(">h").unpack_from
_INT32: Final = _struct.Struct(">i").unpack_from


def uuid(data: bytes, at: int) -> tuple[str, int]:
    return topic_id(_take(data, at, at + 16)), at + 16


@lru_cache(maxsize=4_096)
def topic_id(data: bytes) -> str:
    """The text of a topic id of 16 bytes."""
    return str(UUID(bytes=data))


def nullable_string(data: bytes, at: int) -> tuple[str | None, int]:
    size = _INT16(data, at)[0]
    if size < 0:
        return None, at + 2
    end = at + 2 + size
    if end > len(data):
        raise _too_short(data, end)
    return data[at + 2 : end].decode(), end


def string(data: bytes, at: int) -> tuple[str, int]:
    size = _INT16(data, at)[0]
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise _null() if size < 0 else _too_short(data, end)
    return data[at + 2 : end].decode(), end


def blob(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with an int32 length; null is b""."""
    size = max(_INT32(data, at)[0], 0)
    at += 4
    return _take(data, at, at + size), at + size


def nullable_blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _INT32(data, at)[0], at + 4
    return (None, at) if size < 0 else (_take(data, at, at + size), at + size)


def compact_nullable_string(data: bytes, at: int) -> tuple[str | None, int]:
    size, at = varint(data, at)
    if not size:
        return None, at
    end = at + size - 1
    if end > len(data):
        raise _too_short(data, end)
    return data[at:end].decode(), end


def compact_string(data: bytes, at: int) -> tuple[str, int]:
    text, at = compact_nullable_string(data, at)
    if text is None:
        raise _null()
    return text, at


def compact_blob(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = varint(data, at)
    end = at + max(size - 1, 0)
    return _take(data, at, end), end


def array(element: Reader) -> Reader:
    """An array with an int32 count; null is []."""

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        return _elements(element, max(_INT32(data, at)[0], 0), data, at + 4)

    return read


def compact_array(element: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        count, at = varint(data, at)
        return _elements(element, max(count - 1, 0), data, at)

    return read


def compact_int32s(data: bytes, at: int) -> tuple[list[int], int]:
    count, at = varint(data, at)
    return _int32s(max(count - 1, 0), data, at)


def compact_nullable_int32s(data: bytes, at: int) -> tuple[list[int] | None, int]:
    return (None, at + 1) if data[at] == 0 else compact_int32s(data, at)


def int32s(data: bytes, at: int) -> tuple[list[int], int]:
    return _int32s(max(_INT32(data, at)[0], 0), data, at + 4)


def nullable(reader: Reader) -> Reader:
    """A struct after an int8 that is negative if it is null; as Kafka writes structs that may be
    null. In tagged fields 0 is null and 1 is not: pass those to `tagged_nullable`."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        present, at = int8(data, at)
        return (None, at) if present < 0 else reader(data, at)

    return read


def tagged_nullable(reader: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        return reader(data, at + 1) if data[at] == 1 else (None, at + 1)

    return read


def struct(*fields: Field) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in fields:
            values[name], at = reader(data, at)
        return values, at

    return read


def flexible(*fields: Field, tags: Tags | None = None) -> Reader:
    tags = tags or {}
    absent = {name: value for name, _, value in tags.values()}

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in fields:
            values[name], at = reader(data, at)
        values.update(absent)
        if data[at] == 0:
            return values, at + 1
        count, at = varint(data, at)
        for _ in range(count):  # Ends with the data: each tagged field takes two bytes at least.
            number, at = varint(data, at)
            size, at = varint(data, at)
            content = _take(data, at, at + size)
            at += size
            if number in tags:
                name, reader, _ = tags[number]
                values[name] = reader(content, 0)[0]
        return values, at

    return read


def varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    return (byte, at + 1) if byte < 0x80 else read_varint(data, at)


def _elements(element: Reader, count: int, data: bytes, at: int) -> tuple[list[Any], int]:
    if count > len(data) - at:  # Each element takes a byte at least.
        raise DamagedError(f"{count} elements announced in {len(data) - at} bytes")
    elements = []
    for _ in range(count):
        value, at = element(data, at)
        elements.append(value)
    return elements, at


def _int32s(count: int, data: bytes, at: int) -> tuple[list[int], int]:
    end = at + 4 * count
    return list(_struct.unpack(f">{count}i", _take(data, at, end))), end


def _take(data: bytes, at: int, end: int) -> bytes:
    if end > len(data):
        raise _too_short(data, end)
    return data[at:end]


def _too_short(data: bytes, end: int) -> DamagedError:
    return DamagedError(f"ends after {len(data)} bytes where {end} are announced")


def _null() -> DamagedError:
    return DamagedError("null where a string must stand")
