"""The fields of kio's message classes, for code that is derived from them."""

from dataclasses import Field
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin


class Shape(NamedTuple):
    """The type of a field."""

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
    return Shape(
        inner, is_array, nullable, is_struct, "" if is_struct else field.metadata["kafka_type"]
    )


def fixed_size(field_shape: Shape) -> int | None:
    """Bytes that a value of this shape always takes, None if that differs."""
    return (
        None
        if field_shape.is_array or field_shape.is_struct
        else _SIZES.get(field_shape.kafka_type)
    )


_SIZES: Final = {
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
    **dict.fromkeys(("int16", "uint16", "error_code"), 2),
    **dict.fromkeys(("int32", "uint32", "timedelta_i32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "timedelta_i64", "datetime_i64"), 8),
    "uuid": 16,
}


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    return next(arg for arg in get_args(annotation) if arg is not NoneType), True
