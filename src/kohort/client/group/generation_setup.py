"""Preparation of a generation for the application: topics, and offsets of new partitions."""

import asyncio
from collections.abc import Callable

from kohort.client.cluster import NO_EPOCH
from kohort.client.group.context import MemberContext
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.retry import retry_until_success
from kohort.client.group.start_offsets import ListOffsets, find_start_offsets
from kohort.client.membership import Grant
from kohort.util.text import join_names


class GenerationSetup:
    """Sets up one generation at a time; a newer generation cancels the setup of an older one."""

    def __init__(
        self,
        context: MemberContext,
        list_offsets: ListOffsets,
        on_ready: Callable[[GenerationScope], None],
    ) -> None:
        """`on_ready` is called with a generation whose start offsets are known."""
        self._context = context
        self._on_ready = on_ready
        self._list_offsets = list_offsets
        self._task: asyncio.Task[None] | None = None
        self._missing: frozenset[str] = frozenset()
        """Topics that were reported as missing."""

    def begin(self, generation: GenerationScope, grant: Grant) -> None:
        """Start the setup of `generation`; `on_ready` is called at its end."""
        self.cancel()
        self._task = self._context.tasks.spawn(
            self._set_up(generation, grant), f"prepares generation {grant.generation}"
        )

    def cancel(self) -> None:
        """Cancel the setup that is running, if any."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _set_up(self, generation: GenerationScope, grant: Grant) -> None:
        context = self._context
        await retry_until_success(
            context,
            lambda: self._remember_topics(grant),
            operation=f"metadata of group {context.name}",
        )
        self._report_missing()
        await retry_until_success(
            context,
            self._find_start_offsets,
            operation=f"start offsets of generation {grant.generation} of group {context.name}",
            advice="check that the partitions have leaders; a partition in an open transaction "
            "waits for its end",
        )
        for owned in context.owned_partitions.values():
            if owned.start is not None and owned.ending.end is None and not owned.is_fetched:
                owned.is_fetched = True
                epoch = NO_EPOCH if owned.committed is None else owned.committed.leader_epoch
                context.fetcher.add(owned.partition, owned.start, epoch)
        self._on_ready(generation)

    async def _remember_topics(self, grant: Grant) -> None:
        """Request the metadata with which later checks of the topics are compared.

        The leader has requested it already, before it computed the assignment.
        """
        context = self._context
        topics = set(context.subscription.topics) | {
            partition.topic for partition in grant.assignment
        }
        if grant.is_leader:
            topics |= context.subscription.topics_of(grant.members)
        if grant.is_leader and context.watch.knows(topics):
            return
        context.watch.remember(
            await context.cluster.metadata(sorted(topics)), topics, context.fetched()
        )
        context.watch.ids.update(grant.topic_ids)

    def _report_missing(self) -> None:
        """Report subscribed topics that do not exist, once each."""
        context = self._context
        missing = frozenset(
            topic for topic in context.subscription.topics if not context.watch.counts[topic]
        )
        new, self._missing = missing - self._missing, missing
        if new:
            context.events.emit_event(
                "missing",
                f"no such topic: {join_names(new)}. Check the name, or create it: it is read as "
                "soon as it exists (partition_watch_interval_ms)",
            )

    async def _find_start_offsets(self) -> None:
        context = self._context
        without_end = [
            owned for owned in context.owned_partitions.values() if owned.ending.end is None
        ]
        await find_start_offsets(
            context.cluster,
            context.config,
            without_end,
            context.watch,
            self._list_offsets,
            context.offset_reader,
        )
