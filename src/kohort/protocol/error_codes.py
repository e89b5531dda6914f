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
    found: set[int] = set()
    if find is not None:
        find(entity, found)
    found.discard(0)
    return found


@cache
def _finder(entity_type: Any) -> _Find | None:
    """None if no entity of this class bears an error."""
    own: list[str] = []
    nested: list[tuple[str, bool, _Find]] = []
    for each in fields(entity_type):
        of = shape(each)
        if of.kafka_type == "error_code" and not of.is_array:
            own.append(each.name)
        elif of.is_struct and (find := _finder(of.inner)) is not None:
            nested.append((each.name, of.is_array, find))
    if not own and not nested:
        return None

    def find_errors(entity: Any, found: set[int]) -> None:
        for name in own:
            found.add(getattr(entity, name))
        for name, is_array, find in nested:
            value = getattr(entity, name)
            for each in (value or ()) if is_array else (value,) if value is not None else ():
                find(each, found)

    return find_errors
