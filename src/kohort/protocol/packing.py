"""Kafka's primitive types by hand, for bytes that are too hot or too early for a message class."""

from collections.abc import Callable
from struct import Struct
from typing import Final
from uuid import UUID

from kohort.protocol.framing import MalformedError

pack_int16: Final[Callable[[int], bytes]] = Struct(">h").pack
pack_int32: Final[Callable[[int], bytes]] = Struct(">i").pack
pack_int64: Final[Callable[[int], bytes]] = Struct(">q").pack

MAX_STRING: Final = 2**15 - 1
"""Bytes of the longest string: Kafka refuses longer ones, also where the encoding has room."""

_NO_UUID: Final = bytes(16)
_SMALL_VARINTS: Final = tuple(bytes((value,)) for value in range(0x80))


def pack_varint(value: int) -> bytes:
    """Pack an unsigned varint: seven bits a byte, lowest first."""
    if value < 0x80:
        return _SMALL_VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(
    data: bytes | bytearray | memoryview, position: int, max_bytes: int = 5
) -> tuple[int, int]:
    """(unsigned varint at offset `position`, offset behind it).

    Raises IndexError at the end of the data, `MalformedError` beyond `max_bytes`. Five bytes hold
    32 bits, ten hold 64.
    """
    value = shift = 0
    stop = 7 * max_bytes
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= stop:
            raise MalformedError(f"variable-length integer of more than {max_bytes} bytes")


def skip_tagged_fields(
    data: bytes | bytearray | memoryview, position: int, limit: int | None = None
) -> int:
    """Offset behind the tagged fields at offset `position`.

    Raises IndexError if `data` ends within their numbers, `MalformedError` beyond `limit` fields.
    The offset may lie behind the end of `data` if the last field claims too many bytes.
    """
    if data[position] == 0:
        return position + 1
    count, position = read_varint(data, position)
    if limit is not None and count > limit:
        raise MalformedError(f"{count} tagged fields in a header")
    for _ in range(count):  # Ends with the data: each field takes at least two bytes.
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    return position


def pack_string(value: str | None) -> bytes:
    """Nullable string with an int16 length. struct.error beyond 32,767 bytes."""
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return pack_int16(len(encoded)) + encoded


def pack_compact_string(value: str | None) -> bytes:
    """Nullable string with its length + 1 as varint."""
    return b"\0" if value is None else pack_compact_bytes(value.encode())


def pack_bytes(value: bytes | None) -> bytes:
    """Nullable bytes with an int32 length."""
    return b"\xff\xff\xff\xff" if value is None else pack_int32(len(value)) + value


def pack_compact_bytes(value: bytes | None) -> bytes:
    """Nullable bytes with their length + 1 as varint."""
    return b"\0" if value is None else pack_varint(len(value) + 1) + value


def pack_uuid(value: UUID | None) -> bytes:
    """16 bytes, all zero for none."""
    return _NO_UUID if value is None else value.bytes


def pack_array(elements: int) -> bytes:
    """Head of an array with an int32 count."""
    return pack_int32(elements)


def pack_compact_array(elements: int) -> bytes:
    """Head of an array with its count + 1 as varint."""
    return pack_varint(elements + 1)
