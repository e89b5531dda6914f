"""Reads the primitive types of Kafka's message format from keys and values of records."""

import struct
from typing import Any
from uuid import UUID

from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import read_varint


class CorruptRecordError(ValueError):
    """The bytes of a record do not follow the schema."""


class RecordReader:
    """Reader of the primitive types of Kafka's message format.

    It reads compact types after `version` has met a flexible version.
    """

    __slots__ = ("_data", "_flexible", "_position")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._position = 0
        self._flexible = flexible

    def version(self, flexible_since: int) -> int:
        version = self.int16()
        if not 0 <= version <= flexible_since:
            raise CorruptRecordError(
                f"value version {version} is newer than this program (0-{flexible_since})"
            )
        self._flexible = version >= flexible_since
        return version

    def int8(self) -> int:
        return self._unpack(">b", 1)

    def int16(self) -> int:
        return self._unpack(">h", 2)

    def int32(self) -> int:
        return self._unpack(">i", 4)

    def int64(self) -> int:
        return self._unpack(">q", 8)

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def int32s(self) -> tuple[int, ...]:
        """The elements of an array of int32."""
        size = self.array_length()
        return struct.unpack(f">{size}i", self._take(4 * size)) if size > 0 else ()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise CorruptRecordError("null where a string must stand")
        return text

    def nullable_string(self) -> str | None:
        length = self._varint() - 1 if self._flexible else self.int16()
        return None if length < 0 else self._take(length).decode()

    def data(self) -> bytes:
        length = self._varint() - 1 if self._flexible else self.int32()
        return self._take(max(length, 0))

    def array_length(self) -> int:
        return self._varint() - 1 if self._flexible else self.int32()

    def tags(self) -> dict[int, bytes]:
        if not self._flexible:
            return {}
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        """Numbers that follow one another."""
        return form.unpack(self._take(form.size))

    def _varint(self) -> int:
        if self._position < len(self._data) and (byte := self._data[self._position]) < 0x80:
            self._position += 1
            return byte
        try:
            value, self._position = read_varint(self._data, self._position)
        except (IndexError, MalformedError) as error:
            raise CorruptRecordError(f"no varint at byte {self._position}: {error}") from None
        return value

    def _unpack(self, form: str, size: int) -> int:
        value: int = struct.unpack(form, self._take(size))[0]
        return value

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise CorruptRecordError(
                f"ends after {len(self._data)} bytes where {end} are announced"
            )
        data = self._data[self._position : end]
        self._position = end
        return data
