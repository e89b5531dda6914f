"""The check for expired offsets, divided into turns of the loop."""

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.classic import Group

EXPIRED_TOGETHER: Final = 4_000
"""Offsets, or groups without any, that are checked for expiry in one turn."""


def turns(groups: Iterable[Group]) -> Iterator[tuple[str, ...]]:
    """Ids of the groups to check in each turn; a group is never divided."""
    ids: list[str] = []
    size = 0
    for group in groups:
        ids.append(group.id)
        size += 1 + len(group.offsets)
        if size >= EXPIRED_TOGETHER:
            yield tuple(ids)
            ids, size = [], 0
    if ids:
        yield tuple(ids)
