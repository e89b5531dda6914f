"""Collects the error codes of a response, wherever its schema has them."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias

from kohort.protocol.schema import shape

_Find: TypeAlias = Callable[[Any, set[int]], None]
"""(entity, found): puts its error codes into `found`."""


def errors_in(entity: Any) -> set[int]:
    """The error codes in a kio entity, each once; without 0, which is none."""
    entity_type: Any = type(entity)
    find = _finder(entity_type)
    codes: set[int] = set()
    if find is not None:
        find(entity, codes)
    codes.discard(0)
    return codes


@cache
def _finder(entity_type: Any) -> _Find | None:
    """None if no entity of this class bears an error."""
    code_fields: list[str] = []
    nested: list[tuple[str, bool, _Find]] = []
    for field in fields(entity_type):
        field_shape = shape(field)
        if field_shape.kafka_type == "error_code" and not field_shape.is_array:
            code_fields.append(field.name)
        elif field_shape.is_struct and (find := _finder(field_shape.inner)) is not None:
            nested.append((field.name, field_shape.is_array, find))
    if not code_fields and not nested:
        return None

    def find_errors(entity: Any, codes: set[int]) -> None:
        for name in code_fields:
            codes.add(getattr(entity, name))
        for name, is_array, find in nested:
            value = getattr(entity, name)
            for item in (value or ()) if is_array else (value,) if value is not None else ():
                find(item, codes)

    return find_errors
