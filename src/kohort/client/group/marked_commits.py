"""Offsets that were committed without waiting (`commit_interval_ms`): kept here until they are
sent.

One offset for each partition, the latest. They are sent with the next interval, and before a
partition goes to another member. What could not be committed is kept for the next time, unless
somebody has committed a newer offset meanwhile: an older one must not come after it.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kohort.client.group.commits import Committer, validate_commits
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError


class MarkedCommits:
    """Of one member."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._marked: dict[OwnedPartition, OffsetAndMetadata] = {}
        self._under_way: dict[OwnedPartition, OffsetAndMetadata] = {}
        """What is being committed now."""
        self._committing = asyncio.Lock()

    def mark(self, offsets: Mapping[OwnedPartition, OffsetAndMetadata]) -> None:
        """Have these committed before long. Raises GenerationEndedError if any may not be committed
        any more.
        """
        for owned in offsets:
            validate_commits(owned)
        self._marked.update(offsets)

    def forget(self, owned_partitions: Iterable[OwnedPartition]) -> None:
        """Newer offsets are committed by another way, or none are committed any more."""
        for owned in owned_partitions:
            self._marked.pop(owned, None)
            self._under_way.pop(owned, None)

    def concern(self, owned_partitions: Iterable[OwnedPartition]) -> bool:
        """Whether an offset of any of these has to arrive before its partition goes to another
        member.
        """
        wanted = self._marked.keys() | self._under_way.keys()
        return any(owned in wanted and owned.ending.commits for owned in owned_partitions)

    async def commit(self) -> None:
        """Send what is marked. Raises KohortError, and keeps what was not committed for the next
        time.
        """
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
