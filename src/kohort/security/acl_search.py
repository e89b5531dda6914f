"""Finds the ACL entries that match filters, in one pass for any number of filters.

A filter has values of some fields. All filters with the same fields form one table, by these
values, and each entry is looked up once in each table. A filter for one resource pattern with few
rules needs no pass.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from operator import itemgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.security.acls import AclBinding, AclBindingFilter, Acls, PatternType, ResourceType

MAX_MATCHES: Final = 100_000
"""Maximum number of matches of all filters, beyond one per entry."""

Found: TypeAlias = list[tuple[UUID, AclBinding]]

_Tables: TypeAlias = dict[tuple[int, ...], dict[Any, list[Found]]]
"""Indexes of a filter's fields → their values → results to which an entry is added."""
_ANY: Final = 1
"""The code of every field for all values."""
_FEW: Final = 20
"""Maximum number of rules of a pattern that are searched in one step."""


class TooManyMatchesError(Exception):
    """All filters together match more entries than a response can have."""


def find(acls: Acls, filters: Iterable[AclBindingFilter]) -> Generator[None, None, list[Found]]:
    """Find the entries of each filter, with their ids, at one point in time, in many steps.

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
    """Equivalent filters without MATCH."""
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
    """The indexes of the fields of a filter without MATCH."""
    return tuple(
        index for index, value in enumerate(entry_filter) if value is not None and value != _ANY
    )


def _getter(fields: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Any]:
    return itemgetter(*fields) if fields else _nothing


def _nothing(_: tuple[Any, ...]) -> None:
    """The values of no fields."""


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
