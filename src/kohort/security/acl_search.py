"""The entries of the ACLs that filters are for, found in one pass for however many filters.

A filter asks for values of some fields. All filters that ask for the same fields are one table, by
these values, and each entry is looked up once in each table. A filter that is for one resource
pattern with few rules needs no pass.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from operator import itemgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.security.acls import AclBinding, AclBindingFilter, Acls, PatternType, ResourceType

MAX_MATCHES: Final = 100_000
"""Entries that all filters find together, beside each entry once."""

Found: TypeAlias = list[tuple[UUID, AclBinding]]

_Tables: TypeAlias = dict[tuple[int, ...], dict[Any, list[Found]]]
"""By the indexes of the fields that filters ask for, by their values: where an entry goes."""
_ANY: Final = 1
"""The code for all values of a field, whatever the field."""
_FEW: Final = 20
"""Rules of a pattern that are looked at in one step."""


class TooManyMatchesError(Exception):
    """Filters find more entries together than a response can have."""


def find(acls: Acls, filters: Iterable[AclBindingFilter]) -> Generator[None, None, list[Found]]:
    """Find the entries of each filter, with their ids, as of one moment; in many steps.

    Raises TooManyMatchesError.
    """
    found: list[Found] = []
    tables: _Tables = defaultdict(lambda: defaultdict(list))
    for wanted in filters:
        of_one: Found = []
        found.append(of_one)
        yield
        for each in _without_match(acls, wanted):
            if _is_narrow(acls, each):
                pattern = each.resource_type, each.pattern_type, each.resource_name or ""
                of_one += (pair for pair in acls.of_pattern(*pattern) if each.matches(pair[1]))
            else:
                fields = _fields(each)
                tables[fields][_getter(fields)(each)].append(of_one)
            yield
    if tables:
        yield from _look_at_all(acls, tables, sum(map(len, found)))
    return found


def _without_match(acls: Acls, wanted: AclBindingFilter) -> Iterable[AclBindingFilter]:
    """Filters that find the same together, none of them with MATCH."""
    kind, name = wanted.resource_type, wanted.resource_name
    if wanted.pattern_type is not PatternType.MATCH:
        return (wanted,)
    if name is None:
        return (wanted._replace(pattern_type=PatternType.ANY),)
    return [
        wanted._replace(resource_type=of, pattern_type=pattern_type, resource_name=pattern)
        for of in (ResourceType if kind is ResourceType.ANY else (kind,))
        for pattern_type, pattern in acls.patterns_of(of, name)
    ]


def _is_narrow(acls: Acls, wanted: AclBindingFilter) -> bool:
    kind, name, pattern_type = wanted.resource_type, wanted.resource_name, wanted.pattern_type
    if kind is ResourceType.ANY or name is None or pattern_type <= PatternType.MATCH:
        return False
    return acls.rules_of(kind, pattern_type, name) <= _FEW


def _fields(wanted: AclBindingFilter) -> tuple[int, ...]:
    """The indexes of the fields that a filter, which is without MATCH, asks for."""
    return tuple(at for at, value in enumerate(wanted) if value is not None and value != _ANY)


def _getter(fields: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Any]:
    return itemgetter(*fields) if fields else _nothing


def _nothing(_: tuple[Any, ...]) -> None:
    """The value of no field."""


def _look_at_all(acls: Acls, tables: _Tables, matches: int) -> Generator[None, None, None]:
    most = MAX_MATCHES + len(acls)
    looks = [(_getter(fields), by_values.get) for fields, by_values in tables.items()]
    for pair in acls.snapshot().items():
        for values, places in looks:
            for found in (into := places(values(pair[1]), ())):
                found.append(pair)
            matches += len(into)
        if matches > most:
            raise TooManyMatchesError
        yield
