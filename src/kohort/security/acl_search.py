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
    matches: list[Found] = []
    tables: _Tables = defaultdict(lambda: defaultdict(list))
    for entry_filter in filters:
        of_one: Found = []
        matches.append(of_one)
        yield
        for exact_filter in _without_match(acls, entry_filter):
            if _is_narrow(acls, exact_filter):
                pattern = (
                    exact_filter.resource_type,
                    exact_filter.pattern_type,
                    exact_filter.resource_name or "",
                )
                of_one += (
                    pair for pair in acls.of_pattern(*pattern) if exact_filter.matches(pair[1])
                )
            else:
                fields = _fields(exact_filter)
                tables[fields][_getter(fields)(exact_filter)].append(of_one)
            yield
    if tables:
        yield from _scan_all(acls, tables, sum(map(len, matches)))
    return matches


def _without_match(acls: Acls, entry_filter: AclBindingFilter) -> Iterable[AclBindingFilter]:
    """Filters that find the same together, none of them with MATCH."""
    kind, name = entry_filter.resource_type, entry_filter.resource_name
    if entry_filter.pattern_type is not PatternType.MATCH:
        return (entry_filter,)
    if name is None:
        return (entry_filter._replace(pattern_type=PatternType.ANY),)
    return [
        entry_filter._replace(
            resource_type=resource_type, pattern_type=pattern_type, resource_name=pattern
        )
        for resource_type in (ResourceType if kind is ResourceType.ANY else (kind,))
        for pattern_type, pattern in acls.patterns_of(resource_type, name)
    ]


def _is_narrow(acls: Acls, entry_filter: AclBindingFilter) -> bool:
    kind, name, pattern_type = (
        entry_filter.resource_type,
        entry_filter.resource_name,
        entry_filter.pattern_type,
    )
    if kind is ResourceType.ANY or name is None or pattern_type <= PatternType.MATCH:
        return False
    return acls.rules_of(kind, pattern_type, name) <= _FEW


def _fields(entry_filter: AclBindingFilter) -> tuple[int, ...]:
    """The indexes of the fields that a filter, which is without MATCH, asks for."""
    return tuple(
        index for index, value in enumerate(entry_filter) if value is not None and value != _ANY
    )


def _getter(fields: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Any]:
    return itemgetter(*fields) if fields else _nothing


def _nothing(_: tuple[Any, ...]) -> None:
    """The value of no field."""


def _scan_all(acls: Acls, tables: _Tables, matches: int) -> Generator[None, None, None]:
    most = MAX_MATCHES + len(acls)
    looks = [(_getter(fields), by_values.get) for fields, by_values in tables.items()]
    for pair in acls.snapshot().items():
        for values, lookup in looks:
            for results in (result_lists := lookup(values(pair[1]), ())):
                results.append(pair)
            matches += len(result_lists)
        if matches > most:
            raise TooManyMatchesError
        yield
