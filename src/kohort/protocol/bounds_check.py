"""Bounds checks of encoded messages, by a generated function for each message class.

kio trusts the counts of its peer (`lenient_decoding` describes the consequences), so every request
with an array is walked over first. An OffsetCommit or Fetch names hundreds of partitions. Therefore
a function is generated for each message class, with one line or two per field and a loop per array.

The function accepts only ordinary messages: counts that the message can hold, strings of Kafka's
lengths, no null where none is allowed, no tagged fields, the end where it should be. All others are
left to `lenient_decoding`.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeAlias

from kohort.protocol.packing import MAX_STRING, read_varint
from kohort.protocol.schema import Shape, fixed_size, shape

BoundsCheck: TypeAlias = Callable[[bytes, int, int], bool]
"""(data, offset, elements allowed) -> whether kio can read the message.

Raises IndexError at the end of the data, `MalformedError` for an invalid length; kio cannot read it
then either.
"""

_INDENT: Final = "    "


def bounds_check(entity_type: Any) -> BoundsCheck:
    """The check for messages of this class.

    Without arrays it passes whenever no string can be too long: kio reads those safely.
    """
    if not has_arrays(entity_type):
        return _is_short
    body = [_INDENT + line for line in _struct_lines(entity_type, depth=0)]
    source = "\n".join(
        ["def walk(data, at, left):", "    end = len(data)", *body, "    return at <= end"],
    )
    namespace: dict[str, Any] = {"read_varint": read_varint, "read_int": int.from_bytes}
    exec(
        compile(source, f"<walk over {entity_type.__name__} v{entity_type.__version__}>", "exec"),
        namespace,
    )
    walk: BoundsCheck = namespace["walk"]
    return walk


def has_arrays(entity_type: Any) -> bool:
    """Whether a message of this class has counts."""
    shapes = [shape(field) for field in fields(entity_type)]
    return any(
        shape_of_field.is_array or (shape_of_field.is_struct and has_arrays(shape_of_field.inner))
        for shape_of_field in shapes
    )


def _is_short(data: bytes, position: int, _left: int) -> bool:
    return len(data) - position <= MAX_STRING


def _struct_lines(entity_type: Any, depth: int) -> Iterator[str]:
    """Lines that move `at` behind a struct, or return False."""
    flexible, pending = entity_type.__flexible__, 0
    for field_shape in (
        shape(field) for field in fields(entity_type) if "tag" not in field.metadata
    ):
        size = fixed_size(field_shape)
        if size is not None:
            pending += size
            continue
        if pending:
            yield f"at += {pending}"
        pending = 0
        yield from (
            _array_lines(field_shape, flexible, depth)
            if field_shape.is_array
            else _value_lines(field_shape, flexible, depth)
        )
    if pending:
        yield f"at += {pending}"
    if flexible:
        yield "if data[at]: return False"
        yield "at += 1"


def _value_lines(field_shape: Shape, flexible: bool, depth: int) -> Iterator[str]:
    if field_shape.is_struct:
        if field_shape.nullable:  # rare; a byte before the struct says whether it is null
            yield "return False"
        else:
            yield from _struct_lines(field_shape.inner, depth)
    elif flexible:
        yield "n = data[at]"
        yield "if n > 127:"
        yield "    n, at = read_varint(data, at)"
        if field_shape.kafka_type == "string":
            yield f"    if n > {MAX_STRING + 1}: return False"
        yield "    at += n - 1 if n else 0"
        yield "else: at += n or 1"
    else:
        size = 2 if field_shape.kafka_type == "string" else 4
        yield f"n = read_int(data[at:at + {size}], 'big', signed=True)"
        yield f"at += {size} + n if n > 0 else {size}"


def _array_lines(field_shape: Shape, flexible: bool, depth: int) -> Iterator[str]:
    n = f"n{depth}"
    if flexible:
        yield f"{n} = data[at] - 1"
        yield "at += 1"
        yield f"if {n} > 126:"
        yield f"    {n}, at = read_varint(data, at - 1)"
        yield f"    {n} -= 1"
    else:
        yield f"{n} = read_int(data[at:at + 4], 'big', signed=True)"
        yield "at += 4"
    if not field_shape.nullable:
        yield f"if {n} < 0: return False"
    yield f"if {n} > 0:"
    yield f"    left -= {n}"
    yield f"    if left < 0 or {n} > end - at: return False"
    size = fixed_size(field_shape._replace(is_array=False))
    if size is not None:
        yield f"    at += {n} * {size}"
        return
    yield f"    for _ in range({n}):"
    element = field_shape._replace(is_array=False, nullable=False)
    yield from (f"        {line}" for line in _value_lines(element, flexible, depth + 1))
