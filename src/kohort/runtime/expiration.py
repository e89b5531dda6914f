"""The check for expired offsets, divided into turns of the loop."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.requests import ExpireOffsets, ExpireSomeOffsets

EXPIRATION_CHUNK: Final = 4_000
"""Offsets, or groups without offsets, that are checked for expiry in one turn."""
GROUP_EXPIRATION_CHUNK: Final = 1_000
"""Offsets of a larger group that are checked in one turn: all of them may be expired."""


def turns(groups: Iterable[AnyGroup]) -> Iterator[ExpireOffsets | ExpireSomeOffsets]:
    """The events of each turn: several small groups, or a part of a large one.

    Each event is handled before the next one is generated, so a group may shrink in between.
    """
    ids: list[str] = []
    size = 0
    for group in groups:
        offsets = len(group.offsets)
        if offsets > EXPIRATION_CHUNK:
            yield from _parts(group)
            offsets = len(group.offsets)
            if offsets > EXPIRATION_CHUNK:
                continue
        ids.append(group.id)
        size += 1 + offsets
        if size >= EXPIRATION_CHUNK:
            yield ExpireOffsets(tuple(ids))
            ids, size = [], 0
    if ids:
        yield ExpireOffsets(tuple(ids))


def _parts(group: AnyGroup) -> Iterator[ExpireSomeOffsets]:
    partitions = iter(group.offsets.snapshot())
    while some := tuple(islice(partitions, GROUP_EXPIRATION_CHUNK)):
        yield ExpireSomeOffsets(group.id, some)
