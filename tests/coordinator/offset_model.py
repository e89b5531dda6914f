"""The offsets of groups and transactions, by the rule of Kafka's OffsetMetadataManager."""

from collections.abc import Mapping
from typing import TypeAlias

Key: TypeAlias = tuple[str, str, int]
"""(group, topic, partition)."""


class OffsetModel:
    """What was committed, and what the open transactions of producers have."""

    def __init__(self) -> None:
        self.committed: dict[Key, tuple[int, int]] = {}
        """(number of the commit, offset): a later commit has a higher number."""
        self.open: dict[int, dict[Key, tuple[int, int]]] = {}
        """The same by producer id, for its open transaction."""
        self._commits = 0

    def commit(self, offsets: Mapping[Key, int], producer_id: int | None = None) -> None:
        """Accepted offsets, of a producer's transaction if there is one."""
        self._commits += 1
        into = self.committed if producer_id is None else self.open.setdefault(producer_id, {})
        into.update((key, (self._commits, offset)) for key, offset in offsets.items())

    def end(self, producer_id: int, *, commit: bool) -> None:
        """The marker: a pending offset counts, unless a later commit does already."""
        for key, pending in self.open.pop(producer_id, {}).items():
            if commit and pending > self.committed.get(key, (0, 0)):
                self.committed[key] = pending

    def delete(self, key: Key) -> None:
        """A tombstone drops the offset, and the pending ones."""
        for offsets in (self.committed, *self.open.values()):
            offsets.pop(key, None)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group."""
        return {key[1:]: offset for key, (_, offset) in self.committed.items() if key[0] == group}

    def unstable(self, group: str) -> set[tuple[str, int]]:
        """The partitions of a group that have a pending offset."""
        return {key[1:] for pending in self.open.values() for key in pending if key[0] == group}
