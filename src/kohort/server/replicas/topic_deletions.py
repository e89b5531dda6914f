"""Deleted topics until their records and their offsets in groups are removed.

Both go once no power loss can bring a topic back.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices


class Pending(NamedTuple):
    """Deletions that were made by the time of a call."""

    names: frozenset[str]
    partitions: Sequence[tuple[TopicPartition, UUID]]


class Deletions:
    """Deletions that are to be finished when they are durable."""

    def __init__(self, remove: Callable[[TopicPartition, UUID], None]) -> None:
        """`remove` removes a partition with its records."""
        self.on_deleted: list[Callable[[frozenset[str]], Sequence[asyncio.Task[None]] | None]] = []
        """Called with the names of topics that are gone, when no power loss can bring them back.

        No topic of these names is created before the tasks that are returned have ended.
        """
        self._remove = remove
        self._names: set[str] = set()
        """Deleted topics for which `on_deleted` was not called yet."""
        self._partitions: dict[TopicPartition, UUID] = {}
        """Partitions of deleted topics: their records go once the deletion is on the disk."""
        self._cleanups: dict[str, list[asyncio.Task[None]]] = {}
        """Tasks of `on_deleted`, by topic."""

    def add_topic(self, name: str) -> None:
        """A topic was deleted."""
        self._names.add(name)

    def add_partition(self, partition: TopicPartition, topic_id: UUID) -> None:
        """The log of a partition of a deleted topic was closed."""
        self._partitions[partition] = topic_id

    def undo(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """The deletion of a topic was rolled back."""
        self._names.discard(name)
        for partition in partitions:
            self._partitions.pop(partition, None)

    @property
    def has_topics(self) -> bool:
        """Whether `on_deleted` was not called for all deleted topics yet."""
        return bool(self._names)

    @property
    def has_records(self) -> bool:
        """Whether records of deleted topics are left."""
        return bool(self._partitions)

    def pending(self) -> Pending:
        """The deletions until now, for `finish`."""
        return Pending(frozenset(self._names), tuple(self._partitions.items()))

    async def finish(self, pending: Pending) -> None:
        """Forget topics whose deletion is durable, and remove their records, in slices."""
        self._notify_deleted(pending.names)
        slices = TimeSlices()
        for partition, topic_id in pending.partitions:
            self._remove_records(partition, topic_id)
            await slices.give_way()

    def finish_all(self) -> None:
        """`finish` all deletions, blocking until it is done."""
        names, partitions = self.pending()
        self._notify_deleted(names)
        for partition, topic_id in partitions:
            self._remove_records(partition, topic_id)

    async def await_cleanup(self, names: Iterable[str]) -> None:
        """Return when the offsets of deleted topics with these names are removed."""
        for name in names:
            if name in self._cleanups:
                await asyncio.wait(self._cleanups.pop(name))

    def _notify_deleted(self, names: frozenset[str]) -> None:
        # Several callers may have waited for the disk; the first one notifies for all.
        unnotified = names & self._names
        self._names -= unnotified
        if unnotified:
            tasks = [task for callback in self.on_deleted for task in callback(unnotified) or ()]
            self._cleanups = {
                name: running
                for name, earlier in (self._cleanups | dict.fromkeys(unnotified, tasks)).items()
                if (running := [task for task in earlier if not task.done()])
            }

    def _remove_records(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove a partition of a deleted topic, unless that was done meanwhile."""
        if self._partitions.get(partition) == topic_id:
            del self._partitions[partition]
            self._remove(partition, topic_id)
