"""Offsets that were committed without waiting (`commit_interval_ms`), until they are sent.

Each partition has one offset, the latest. Offsets are sent with the next interval, and before a
partition goes to another member. After a failure an offset is kept for the next attempt, unless a
newer one was committed meanwhile: an older offset must not follow a newer one.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kohort.client.group.commits import OffsetCommitter, validate_commits
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError


class MarkedCommits:
    """The marked offsets of one member."""

    def __init__(self, committer: OffsetCommitter) -> None:
        self._committer = committer
        self._marked: dict[OwnedPartition, OffsetAndMetadata] = {}
        self._under_way: dict[OwnedPartition, OffsetAndMetadata] = {}
        """Offsets of the request in flight."""
        self._committing = asyncio.Lock()

    def mark(self, offsets: Mapping[OwnedPartition, OffsetAndMetadata]) -> None:
        """Have these offsets committed soon.

        Raises GenerationEndedError if any of the partitions may not be committed any more.
        """
        for owned in offsets:
            validate_commits(owned)
        self._marked.update(offsets)

    def forget(self, owned_partitions: Iterable[OwnedPartition]) -> None:
        """Drop the marked offsets of these partitions: newer ones, or none, will be committed."""
        for owned in owned_partitions:
            self._marked.pop(owned, None)
            self._under_way.pop(owned, None)

    def concern(self, owned_partitions: Iterable[OwnedPartition]) -> bool:
        """Whether an offset of these partitions has to arrive before they go to another member."""
        unsent = self._marked.keys() | self._under_way.keys()
        return any(owned in unsent and owned.ending.commits for owned in owned_partitions)

    async def commit(self) -> None:
        """Send the marked offsets. Keeps offsets that were not committed. Raises KohortError."""
        async with self._committing:
            marked, self._marked = self._marked, {}
            self._under_way = {
                owned: offset for owned, offset in marked.items() if owned.ending.commits
            }
            if not self._under_way:
                return
            try:
                await self._committer.commit(dict(self._under_way))
            except (KohortError, asyncio.CancelledError):
                self._marked = self._under_way | self._marked
                raise
            finally:
                self._under_way = {}
