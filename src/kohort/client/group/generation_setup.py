"""Preparation of a generation for the application: topics, and offsets of new partitions."""

import asyncio
from typing import Protocol

from kohort.client.cluster import NO_EPOCH
from kohort.client.group.commits import Identity
from kohort.client.group.context import MemberContext
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.retry import retry_until_success
from kohort.client.group.start_offsets import ListOffsets, find_start_offsets
from kohort.client.membership import Grant
from kohort.util.text import join_names


class SetUpMember(MemberContext, Protocol):
    """The member as `GenerationSetup` sees it."""

    @property
    def offset_reader(self) -> Identity | None:
        """The member of the consumer protocol for which offsets are fetched; None: classic."""
        ...

    def on_set_up(self, generation: GenerationScope) -> None:
        """The generation's start offsets are known: the application may have it."""
        ...


class GenerationSetup:
    """Sets up one generation at a time; a newer generation cancels the setup of an older one."""

    def __init__(self, run: SetUpMember, list_offsets: ListOffsets) -> None:
        self._run = run
        self._list_offsets = list_offsets
        self._task: asyncio.Task[None] | None = None
        self._missing: frozenset[str] = frozenset()
        """Topics that were told to be missing."""

    def begin(self, generation: GenerationScope, grant: Grant) -> None:
        """Start the setup of `generation`; `on_set_up` is called at its end."""
        self.cancel()
        self._task = self._run.spawn(
            self._set_up(generation, grant), f"prepares generation {grant.generation}"
        )

    def cancel(self) -> None:
        """Cancel the setup that is running, if any."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _set_up(self, generation: GenerationScope, grant: Grant) -> None:
        run = self._run
        await retry_until_success(
            run, lambda: self._remember_topics(grant), what=f"metadata of group {run.name}"
        )
        self._tell_missing()
        await retry_until_success(
            run,
            self._find_start_offsets,
            what=f"start offsets of generation {grant.generation} of group {run.name}",
            advice="check that the partitions have leaders; a partition in an open transaction "
            "waits for its end",
        )
        for owned in run.owned_partitions.values():
            if owned.start is not None and owned.ending.end is None and not owned.is_fetched:
                owned.is_fetched = True
                epoch = NO_EPOCH if owned.committed is None else owned.committed.leader_epoch
                run.fetcher.add(owned.partition, owned.start, epoch)
        run.on_set_up(generation)

    async def _remember_topics(self, grant: Grant) -> None:
        """Request the metadata with which later checks of the topics are compared.

        The leader has requested it already, before it computed the assignment.
        """
        run = self._run
        topics = set(run.subscription.topics) | {each.topic for each in grant.assignment}
        if grant.is_leader:
            topics |= run.subscription.topics_of(grant.members)
        if grant.is_leader and run.watch.knows(topics):
            return
        run.watch.remember(await run.cluster.metadata(sorted(topics)), topics, run.fetched())
        run.watch.ids.update(grant.topic_ids)

    def _tell_missing(self) -> None:
        """Tell which subscribed topics do not exist, once for each."""
        run = self._run
        missing = frozenset(each for each in run.subscription.topics if not run.watch.counts[each])
        new, self._missing = missing - self._missing, missing
        if new:
            run.emit_event(
                "missing",
                f"no such topic: {join_names(new)}. Check the name, or create it: it is read as "
                "soon as it exists (partition_watch_interval_ms)",
            )

    async def _find_start_offsets(self) -> None:
        run = self._run
        without_end = [owned for owned in run.owned_partitions.values() if owned.ending.end is None]
        await find_start_offsets(
            run.cluster,
            run.config,
            without_end,
            run.watch,
            self._list_offsets,
            run.offset_reader,
        )
