"""Offsets that were committed without waiting (`commit_interval_ms`): kept here until they are
sent.

One offset for each partition, the latest. They are sent with the next interval, and before a
partition goes to another member. What could not be committed is kept for the next time, unless
somebody has committed a newer offset meanwhile: an older one must not come after it.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kohort.client.group.commits import Committer, validate_commits
from kohort.client.group.owned_partition import Holding
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError


class MarkedCommits:
    """Of one member."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._marked: dict[Holding, OffsetAndMetadata] = {}
        self._under_way: dict[Holding, OffsetAndMetadata] = {}
        """What is being committed now."""
        self._committing = asyncio.Lock()

    def mark(self, offsets: Mapping[Holding, OffsetAndMetadata]) -> None:
        """Have these committed before long. Raises GenerationEndedError if any may not be committed
        any more.
        """
        for holding in offsets:
            validate_commits(holding)
        self._marked.update(offsets)

    def forget(self, holdings: Iterable[Holding]) -> None:
        """Newer offsets are committed by another way, or none are committed any more."""
        for holding in holdings:
            self._marked.pop(holding, None)
            self._under_way.pop(holding, None)

    def concern(self, holdings: Iterable[Holding]) -> bool:
        """Whether an offset of any of these has to arrive before its partition goes to another
        member.
        """
        wanted = self._marked.keys() | self._under_way.keys()
        return any(holding in wanted and holding.ending.commits for holding in holdings)

    async def commit(self) -> None:
        """Send what is marked. Raises KohortError, and keeps what was not committed for the next
        time.
        """
        async with self._committing:
            marked, self._marked = self._marked, {}
            self._under_way = {
                holding: offset for holding, offset in marked.items() if holding.ending.commits
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
