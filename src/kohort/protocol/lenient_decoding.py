"""Lenient decoding: rewrites encoded messages that Apache Kafka reads and kio refuses.

kio's native reader trusts its peer in two ways. It reserves memory for as many array elements as
the sender *declares*, and a count of 2^35 ends the process, so every count is compared with the
bytes that are left. It accepts null for an array that cannot be null. And it refuses messages that
Kafka accepts: unknown tagged fields, which a newer client may send; text that is not UTF-8; a
retention of more years than Python's timedelta has; a time before 1970, which stands for none; an
error code of a later release, which is read as UNKNOWN_SERVER_ERROR.

A message that fails the check in `bounds_check` is therefore walked step by step, along its lengths
and counts. Invalid messages are refused. Parts that kio refuses are removed, or replaced by the
value that Kafka reads. The steps are derived from kio's own schema classes, so there is no second
description of the messages.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, Final, TypeAlias

from kohort.errors import ErrorCode
from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import (
    MAX_STRING,
    pack_compact_string,
    pack_int16,
    pack_int64,
    pack_string,
    pack_varint,
    read_varint,
)
from kohort.protocol.schema import Shape, fixed_size, shape

MAX_ELEMENTS: Final = 1 << 18
"""Array elements of one request, all arrays together.

A frame of 100 MB of empty strings would take minutes and gigabytes. No client comes near this: a
cluster of Apache Kafka is said to have at most 200,000 partitions.
"""

BYTES_PER_ELEMENT: Final = 4
"""Bytes of a response that account for one more array element than `MAX_ELEMENTS`.

The replicas of a partition take as many each. So responses of any size that brokers send are read,
and none takes much more memory than elements of so few bytes do.
"""

MAX_PATCHES: Final = 1 << 12
"""Replaced fields of one request. Today's clients cause none."""

MAX_DURATION_MS: Final = (2**63 - 1) // 1000
"""Longest duration; longer ones are cut to it, because kio counts microseconds in 64 bits."""

_ERROR_CODES: Final = frozenset(map(int, ErrorCode))
_UNKNOWN_SERVER_ERROR: Final = pack_int16(ErrorCode.unknown_server_error)

_int8 = struct.Struct(">b").unpack_from
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_int64 = struct.Struct(">q").unpack_from


@dataclass(slots=True)
class _Message:
    """One message: the elements counted so far, and the parts to replace."""

    data: bytes
    max_elements: int = MAX_ELEMENTS
    elements: int = 0
    patches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(start, stop, replacement), in order."""

    def count(self, elements: int, position: int) -> None:
        """Refuse a count that the rest of the message cannot hold, at a byte per element."""
        self.elements += elements
        if elements > len(self.data) - position or self.elements > self.max_elements:
            raise MalformedError(
                f"array of {elements} elements, {len(self.data) - position} bytes are left"
            )

    def replace(self, start: int, stop: int, replacement: bytes = b"") -> None:
        """Replace [start, stop) by other bytes, or remove it."""
        if len(self.patches) >= MAX_PATCHES:
            raise MalformedError(f"more than {MAX_PATCHES} fields that are not as they should be")
        self.patches.append((start, stop, replacement))

    def patched(self, position: int) -> bytes:
        """The message from offset `position`, as kio can read it."""
        parts: list[bytes] = []
        for start, stop, replacement in self.patches:
            parts += (self.data[position:start], replacement)
            position = stop
        return b"".join((*parts, self.data[position:]))


_Step: TypeAlias = Callable[[_Message, int], int]
"""Skips a field that starts at the offset. Returns the offset after it.

At the end of the data: IndexError, struct.error, or an offset beyond it.
"""


def max_response_elements(data: bytes) -> int:
    """Array elements that a response of these bytes may have, all arrays together."""
    return max(MAX_ELEMENTS, len(data) // BYTES_PER_ELEMENT)


def normalized(
    entity_type: Any, data: bytes, start: int = 0, max_elements: int = MAX_ELEMENTS
) -> bytes:
    """The message that starts at offset `start`, as kio can read it.

    Bytes behind it are ignored, as Kafka does. It may have `max_elements` array elements.

    Raises `MalformedError` if it cannot be read.
    """
    message = _Message(data, max_elements)
    step: _Step = _struct_step(entity_type)
    try:
        end = step(message, start)
    except (IndexError, struct.error):
        end = len(data) + 1
    if end > len(data):
        raise MalformedError(f"{entity_type.__name__} v{entity_type.__version__} ends early")
    return message.patched(start)


# The plan of a class


@cache
def _struct_step(entity_type: Any) -> _Step:
    plain = [field for field in fields(entity_type) if "tag" not in field.metadata]
    steps = _merged([_field_step(shape(field), entity_type.__flexible__) for field in plain])
    if entity_type.__flexible__:
        steps.append(_tags_step(_known_tags(entity_type)))
    if len(steps) == 1:
        return steps[0]

    def step(message: _Message, position: int) -> int:
        for field_step in steps:
            position = field_step(message, position)
        return position

    return step


def _known_tags(entity_type: Any) -> dict[int, _Step]:
    tagged: list[Field[Any]] = [field for field in fields(entity_type) if "tag" in field.metadata]
    # A tag that is there is not null: nullable structs have no marker byte in a tagged field.
    return {
        field.metadata["tag"]: _field_step(shape(field)._replace(nullable=False), flexible=True)
        for field in tagged
    }


class _Fixed:
    """A field, or several in a row, whose size is known beforehand."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, _message: _Message, position: int) -> int:
        return position + self.size


def _merged(steps: list[_Step]) -> list[_Step]:
    merged: list[_Step] = []
    for next_step in steps:
        last = merged[-1] if merged else None
        if isinstance(next_step, _Fixed) and isinstance(last, _Fixed):
            merged[-1] = _Fixed(last.size + next_step.size)
        else:
            merged.append(next_step)
    return merged


def _field_step(field_shape: Shape, flexible: bool) -> _Step:
    if not field_shape.is_array:
        step = _value_step(field_shape, flexible)
        return _nullable_step(step) if field_shape.is_struct and field_shape.nullable else step
    return (_compact_array_step if flexible else _array_step)(
        _value_step(field_shape, flexible), field_shape.nullable
    )


def _value_step(field_shape: Shape, flexible: bool) -> _Step:
    if field_shape.is_struct:
        return _struct_step(field_shape.inner)
    if field_shape.kafka_type == "error_code":
        return _error_code_step
    if field_shape.kafka_type == "timedelta_i64":
        return _duration_step
    if field_shape.kafka_type == "datetime_i64" and not field_shape.nullable:
        return _timestamp_step
    size = fixed_size(field_shape._replace(is_array=False))
    if size is not None:
        return _Fixed(size)
    if field_shape.kafka_type == "string":
        return _compact_string_step if flexible else _string_step
    return _compact_bytes_step if flexible else _bytes_step


# Steps. Whether a string may be null is left to kio.


def _string_step(message: _Message, position: int) -> int:
    length: int = _int16(message.data, position)[0]
    end = position + 2 + max(length, 0)
    text = _not_utf8(message.data[position + 2 : end])
    if text is not None:
        message.replace(position, end, pack_string(text))
    return end


def _compact_string_step(message: _Message, position: int) -> int:
    length, start = read_varint(message.data, position)
    if length - 1 > MAX_STRING:
        raise MalformedError(f"string of {length - 1} bytes, {MAX_STRING} are accepted")
    end = start + max(length - 1, 0)
    text = _not_utf8(message.data[start:end]) if length else None
    if text is not None:
        message.replace(position, end, pack_compact_string(text))
    return end


def _not_utf8(data: bytes) -> str | None:
    """None if it is UTF-8, else Java's decoding, with U+FFFD for invalid bytes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
    return None


def _bytes_step(message: _Message, position: int) -> int:
    length: int = _int32(message.data, position)[0]
    return position + 4 + max(length, 0)


def _compact_bytes_step(message: _Message, position: int) -> int:
    length, position = read_varint(message.data, position)
    return position + max(length - 1, 0)


def _error_code_step(message: _Message, position: int) -> int:
    if _int16(message.data, position)[0] not in _ERROR_CODES:
        message.replace(position, position + 2, _UNKNOWN_SERVER_ERROR)
    return position + 2


def _timestamp_step(message: _Message, position: int) -> int:
    if _int64(message.data, position)[0] < 0:
        message.replace(position, position + 8, pack_int64(0))
    return position + 8


def _duration_step(message: _Message, position: int) -> int:
    milliseconds: int = _int64(message.data, position)[0]
    if abs(milliseconds) > MAX_DURATION_MS:
        message.replace(
            position,
            position + 8,
            pack_int64(MAX_DURATION_MS if milliseconds > 0 else -MAX_DURATION_MS),
        )
    return position + 8


def _array_step(step: _Step, nullable: bool) -> _Step:
    def array(message: _Message, position: int) -> int:
        elements: int = _int32(message.data, position)[0]
        return _elements(message, position + 4, elements, step, nullable)

    return array


def _compact_array_step(step: _Step, nullable: bool) -> _Step:
    def array(message: _Message, position: int) -> int:
        elements, position = read_varint(message.data, position)
        return _elements(message, position, elements - 1, step, nullable)

    return array


def _elements(message: _Message, position: int, elements: int, step: _Step, nullable: bool) -> int:
    if elements < 0:
        if nullable:
            return position
        raise MalformedError("null for an array that cannot be null")
    message.count(elements, position)
    if isinstance(step, _Fixed):
        return position + elements * step.size
    for _ in range(elements):
        position = step(message, position)
    return position


def _nullable_step(step: _Step) -> _Step:
    """KIP-893: a byte in front of the struct, negative for null."""

    def struct_or_null(message: _Message, position: int) -> int:
        return position + 1 if _int8(message.data, position)[0] < 0 else step(message, position + 1)

    return struct_or_null


def _tags_step(steps_of_tags: Mapping[int, _Step]) -> _Step:
    def tags(message: _Message, position: int) -> int:
        return (
            position + 1
            if message.data[position] == 0
            else _tag_section(message, position, steps_of_tags)
        )

    return tags


def _tag_section(message: _Message, position: int, steps_of_tags: Mapping[int, _Step]) -> int:
    """Skip tagged fields in any order; of duplicates the last one counts, as in Kafka."""
    data, section, head = message.data, position, len(message.patches)
    count, position = read_varint(data, position)
    first, kept_count = position, 0
    for _ in range(count):  # ends with the data: each tag takes two bytes at least
        tag_at = position
        tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        if tag in steps_of_tags:
            kept_count += 1
            position = steps_of_tags[tag](message, position)
        else:
            position += size
            message.replace(tag_at, position)
    if kept_count < count:
        message.patches.insert(head, (section, first, pack_varint(kept_count)))
    return position
