"""What kio's message classes are made of, for those who derive something from them."""

from dataclasses import Field
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin


class Shape(NamedTuple):
    """How a field is built."""

    inner: Any
    """The type of the value, of the array's elements if it is an array."""
    is_array: bool
    nullable: bool
    """Whether the value (the array, not its elements) may be None."""
    is_struct: bool
    kafka_type: str
    """"" for structs."""


def shape(field: "Field[Any]") -> Shape:
    """The shape of one field of a kio class."""
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    is_struct = hasattr(inner, "__dataclass_fields__")
    return Shape(inner, is_array, nullable, is_struct, "" if is_struct else field.metadata["kafka_type"])


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    return next(arg for arg in get_args(annotation) if arg is not NoneType), True
