"""Walks over an encoded message before kio reads it.

kio's native reader is fast, in two ways that a server cannot leave to its peers. It reserves memory for as
many array elements as the sender *declares*, and a count of 2^35 ends the process: so every count is held
against the bytes that are left. And it refuses tagged fields that it does not know and takes null for an
array that cannot be null, where Apache Kafka ignores the first (that is what tags are for: a newer client may
send them) and refuses the second.

A walk visits lengths and counts only and builds no values. It follows a plan that is derived once from kio's
own schema class, so there is no second description of the messages to keep in step. A message as usual is walked
over by a function generated for its class (`quick_walk`); any other step by step, here.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, Final, TypeAlias

from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import pack_varint, read_varint
from kohort.protocol.quick_walk import QuickWalk, quick_walk
from kohort.protocol.schema import Shape, fixed_size, shape

MAX_ELEMENTS: Final = 1 << 20
"""Array elements of one request, all arrays together. A frame of 100 MB of empty strings would keep the loop
busy for half a minute; no client comes near this."""

MAX_UNKNOWN_TAGS: Final = 1 << 12
"""Tagged fields of one request that this version of Kafka does not know. Today's clients send none."""

_int8 = struct.Struct(">b").unpack_from
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from


@dataclass(slots=True)
class _Walk:
    """One message on its way: what was seen, and what has to be cut out of it."""

    data: bytes
    elements: int = 0
    cuts: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(start, stop, replacement), in order."""

    def count(self, elements: int, at: int) -> None:
        """Refuse a count that the rest of the message cannot hold: an element takes a byte at least."""
        self.elements += elements
        if elements > len(self.data) - at or self.elements > MAX_ELEMENTS:
            raise MalformedError(f"array of {elements} elements, {len(self.data) - at} bytes are left")

    def cut(self, start: int, stop: int) -> None:
        """Leave [start, stop) out."""
        if len(self.cuts) >= MAX_UNKNOWN_TAGS:
            raise MalformedError(f"more than {MAX_UNKNOWN_TAGS} unknown tagged fields")
        self.cuts.append((start, stop, b""))


_Step: TypeAlias = Callable[[_Walk, int], int]
"""Passes over a field that starts at the offset, gives the offset behind it. At the end of the data:
IndexError, struct.error, or an offset beyond it."""


def walk(entity_type: Any, data: bytes, at: int = 0) -> bytes | None:
    """Check the message in `data` from offset `at`; bytes behind it are ignored, as Kafka does.

    None if kio can read it as it is, else the message (without what was in front of it) with unknown tagged
    fields taken out. Raises `MalformedError`.
    """
    try:
        if _quick(entity_type)(data, at, MAX_ELEMENTS):
            return None
    except (IndexError, MalformedError):
        pass
    return walk_in_steps(entity_type, data, at)


@cache
def _quick(entity_type: Any) -> QuickWalk:
    return quick_walk(entity_type)


def walk_in_steps(entity_type: Any, data: bytes, at: int) -> bytes | None:
    """The whole of `walk`, for messages that are not as usual."""
    state = _Walk(data)
    step: _Step = _struct_step(entity_type)
    try:
        end = step(state, at)
    except (IndexError, struct.error):
        end = len(data) + 1
    if end > len(data):
        raise MalformedError(f"{entity_type.__name__} v{entity_type.__version__} ends early")
    return _mended(state, at) if state.cuts else None


def _mended(state: _Walk, at: int) -> bytes:
    parts: list[bytes] = []
    for start, stop, replacement in state.cuts:
        parts += (state.data[at:start], replacement)
        at = stop
    return b"".join((*parts, state.data[at:]))


def has_arrays(entity_type: type[Any]) -> bool:
    """Whether a message of this class has counts; one without is safe to be read unseen."""
    shapes = [shape(each) for each in fields(entity_type)]
    return any(each.is_array or (each.is_struct and has_arrays(each.inner)) for each in shapes)


# The plan of a class


@cache
def _struct_step(entity_type: Any) -> _Step:
    plain = [each for each in fields(entity_type) if "tag" not in each.metadata]
    steps = _merged([_field_step(shape(each), entity_type.__flexible__) for each in plain])
    if entity_type.__flexible__:
        steps.append(_tags_step(_known_tags(entity_type)))
    if len(steps) == 1:
        return steps[0]

    def step(state: _Walk, at: int) -> int:
        for each in steps:
            at = each(state, at)
        return at

    return step


def _known_tags(entity_type: Any) -> dict[int, _Step]:
    tagged: list[Field[Any]] = [each for each in fields(entity_type) if "tag" in each.metadata]
    # A tag that is there is not null: nullable structs have no marker byte in a tagged field.
    return {each.metadata["tag"]: _field_step(shape(each)._replace(nullable=False), flexible=True) for each in tagged}


class _Fixed:
    """A field, or several in a row, whose size is known beforehand."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, _state: _Walk, at: int) -> int:
        return at + self.size


def _merged(steps: list[_Step]) -> list[_Step]:
    merged: list[_Step] = []
    for each in steps:
        last = merged[-1] if merged else None
        if isinstance(each, _Fixed) and isinstance(last, _Fixed):
            merged[-1] = _Fixed(last.size + each.size)
        else:
            merged.append(each)
    return merged


def _field_step(of: Shape, flexible: bool) -> _Step:
    if not of.is_array:
        step = _value_step(of, flexible)
        return _nullable_step(step) if of.is_struct and of.nullable else step
    return (_compact_array_step if flexible else _array_step)(_value_step(of, flexible), of.nullable)


def _value_step(of: Shape, flexible: bool) -> _Step:
    if of.is_struct:
        return _struct_step(of.inner)
    size = fixed_size(of._replace(is_array=False))
    if size is not None:
        return _Fixed(size)
    if flexible:
        return _compact_string_step
    return _string_step if of.kafka_type == "string" else _bytes_step


# Steps. Whether a string may be null, and what it says, is left to kio.


def _string_step(state: _Walk, at: int) -> int:
    length: int = _int16(state.data, at)[0]
    return at + 2 + max(length, 0)


def _bytes_step(state: _Walk, at: int) -> int:
    length: int = _int32(state.data, at)[0]
    return at + 4 + max(length, 0)


def _compact_string_step(state: _Walk, at: int) -> int:
    length = state.data[at]
    if length < 0x80:
        return at + (length or 1)
    length, at = read_varint(state.data, at)
    return at + max(length - 1, 0)  # zero can be written in two bytes, too


def _array_step(step: _Step, nullable: bool) -> _Step:
    def array(state: _Walk, at: int) -> int:
        elements: int = _int32(state.data, at)[0]
        return _elements(state, at + 4, elements, step, nullable)

    return array


def _compact_array_step(step: _Step, nullable: bool) -> _Step:
    def array(state: _Walk, at: int) -> int:
        elements, at = read_varint(state.data, at)
        return _elements(state, at, elements - 1, step, nullable)

    return array


def _elements(state: _Walk, at: int, elements: int, step: _Step, nullable: bool) -> int:
    if elements < 0:
        if nullable:
            return at
        raise MalformedError("null for an array that cannot be null")
    state.count(elements, at)
    if isinstance(step, _Fixed):
        return at + elements * step.size
    for _ in range(elements):
        at = step(state, at)
    return at


def _nullable_step(step: _Step) -> _Step:
    """KIP-893: a byte in front of the struct, negative for null."""

    def struct_or_null(state: _Walk, at: int) -> int:
        return at + 1 if _int8(state.data, at)[0] < 0 else step(state, at + 1)

    return struct_or_null


def _tags_step(known: Mapping[int, _Step]) -> _Step:
    def tags(state: _Walk, at: int) -> int:
        return at + 1 if state.data[at] == 0 else _tag_section(state, at, known)

    return tags


def _tag_section(state: _Walk, at: int, known: Mapping[int, _Step]) -> int:
    """Pass over tagged fields in any order, duplicates among them (the last one counts, as in Kafka)."""
    data, section, head = state.data, at, len(state.cuts)
    count, at = read_varint(data, at)
    first, kept = at, 0
    for _ in range(count):  # ends with the data: each tag takes two bytes at least
        tag_at = at
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if tag in known:
            kept += 1
            at = known[tag](state, at)
        else:
            at += size
            state.cut(tag_at, at)
    if kept < count:
        state.cuts.insert(head, (section, first, pack_varint(kept)))
    return at
