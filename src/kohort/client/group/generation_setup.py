"""What has to be known before a generation is handed over: the topics, and where each new partition
starts.
"""

import asyncio
from typing import TYPE_CHECKING

from kohort.client.backoff import retrying
from kohort.client.cluster import NO_EPOCH
from kohort.client.errors import GaveUpError, is_retriable
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.start_offsets import find_start_offsets
from kohort.client.membership import Grant

if TYPE_CHECKING:
    from kohort.client.group.run import GroupRun


class GenerationSetup:
    """Prepares one generation at a time; the next one takes its place."""

    def __init__(self, run: "GroupRun") -> None:
        self._run = run
        self._task: asyncio.Task[None] | None = None

    def begin(self, generation: GenerationScope, grant: Grant) -> None:
        self.cancel()
        self._task = self._run.spawn(
            self._prepare(generation, grant), (f"prepares generation {grant.generation}")
        )

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _prepare(self, generation: GenerationScope, grant: Grant) -> None:
        run = self._run
        await self._remember_topics(grant)
        await retrying(
            self._find_starts,
            what=f"start offsets of generation {grant.generation} of group {run.name}",
            timeout_ms=run.config.retry_timeout_ms,
            backoff=run.cluster.backoff(),
            advice="check that the partitions have leaders; a partition in an open transaction "
            "waits for its end",
            retriable=_passes,
        )
        for owned in run.owned_partitions.values():
            if owned.start is not None and owned.ending.end is None and not owned.is_fetched:
                owned.is_fetched = True
                epoch = NO_EPOCH if owned.committed is None else owned.committed.leader_epoch
                run.fetcher.add(owned.partition, owned.start, epoch)
        run.prepared(generation)

    async def _remember_topics(self, grant: Grant) -> None:
        """Ask for the topics as they are now: what changes from here on is a change since the
        assignment.

        The leader has asked already, before it assigned.
        """
        run = self._run
        topics = set(run.subscription.topics) | {each.topic for each in grant.assignment}
        if grant.is_leader:
            topics |= run.subscription.topics_of(grant.members)
        if grant.is_leader and run.watch.knows(topics):
            return
        run.watch.remember(await run.cluster.metadata(sorted(topics)), topics, run.fetched())

    async def _find_starts(self) -> None:
        run = self._run
        wanted = [owned for owned in run.owned_partitions.values() if owned.ending.end is None]
        await find_start_offsets(run.cluster, run.config, wanted, run.watch.ids)


def _passes(error: BaseException) -> bool:
    """Also what a topic that was just deleted answers: the watch finds that out, and ends this."""
    return is_retriable(error) or isinstance(error, GaveUpError)
