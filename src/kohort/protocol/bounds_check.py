"""Sees whether an encoded message is as usual, so that kio can be let at it.

kio trusts the counts of its peer (`mending` says what comes of that), so every request with an
array in it is walked over first, and an OffsetCommit or Fetch names hundreds of partitions. Hence,
as for dataclasses and namedtuples, a function is generated for each message class: one line or two
per field, a loop per array.

It only says whether all is well: counts that the message can hold, nothing null that cannot be, no
tagged fields, the end where it should be. Whatever else it meets it leaves to `mending`, which
knows what to do, or what to say.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeAlias

from kohort.protocol.packing import read_varint
from kohort.protocol.schema import Shape, fixed_size, shape

BoundsCheck: TypeAlias = Callable[[bytes, int, int], bool]
"""(data, offset, elements allowed) -> all is well. IndexError at the end of the data, as does
`MalformedError` for a length that is none: not well either.
"""

_INDENT: Final = "    "


def bounds_check(entity_type: Any) -> BoundsCheck:
    """A function for messages of this class. One without arrays is not looked at: kio reads it
    safely.
    """
    if not has_arrays(entity_type):
        return _no_arrays_to_check
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
    shapes = [shape(each) for each in fields(entity_type)]
    return any(each.is_array or (each.is_struct and has_arrays(each.inner)) for each in shapes)


def _no_arrays_to_check(_data: bytes, _at: int, _left: int) -> bool:
    return True


def _struct_lines(entity_type: Any, depth: int) -> Iterator[str]:
    """Lines that move `at` behind a struct, or return False."""
    flexible, pending = entity_type.__flexible__, 0
    for of in (shape(each) for each in fields(entity_type) if "tag" not in each.metadata):
        size = fixed_size(of)
        if size is not None:
            pending += size
            continue
        if pending:
            yield f"at += {pending}"
        pending = 0
        yield from (
            _array_lines(of, flexible, depth) if of.is_array else _value_lines(of, flexible, depth)
        )
    if pending:
        yield f"at += {pending}"
    if flexible:
        yield "if data[at]: return False"
        yield "at += 1"


def _value_lines(of: Shape, flexible: bool, depth: int) -> Iterator[str]:
    if of.is_struct:
        if of.nullable:  # rare; a byte in front says whether it is there
            yield "return False"
        else:
            yield from _struct_lines(of.inner, depth)
    elif flexible:
        yield "n = data[at]"
        yield "if n > 127:"
        yield "    n, at = read_varint(data, at)"
        yield "    at += n - 1 if n else 0"
        yield "else: at += n or 1"
    else:
        size = 2 if of.kafka_type == "string" else 4
        yield f"n = read_int(data[at:at + {size}], 'big', signed=True)"
        yield f"at += {size} + n if n > 0 else {size}"


def _array_lines(of: Shape, flexible: bool, depth: int) -> Iterator[str]:
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
    if not of.nullable:
        yield f"if {n} < 0: return False"
    yield f"if {n} > 0:"
    yield f"    left -= {n}"
    yield f"    if left < 0 or {n} > end - at: return False"
    size = fixed_size(of._replace(is_array=False))
    if size is not None:
        yield f"    at += {n} * {size}"
        return
    yield f"    for _ in range({n}):"
    element = of._replace(is_array=False, nullable=False)
    yield from (f"        {line}" for line in _value_lines(element, flexible, depth + 1))
