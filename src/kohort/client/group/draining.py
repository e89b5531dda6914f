"""Ends a member's partitions and generations: drain the tasks, commit marked offsets, then report.

The membership continues (rejoins, or leaves) only after its `drained`. While a drain runs, more
partitions may have to end, or the same ones with a harder end. Then the running drain is cancelled,
and replaced by one of all remaining partitions.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kohort.client.group.context import MemberContext
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.owned_partition import OwnedPartition, drain
from kohort.client.group_errors import GroupError
from kohort.client.membership import End, EndPartitions, Grant
from kohort.errors import KohortError, caused_by

FLUSH_TIMEOUT_S: Final = 5.0
"""Time limit for the last commits of partitions that end."""


class Draining:
    """Drains of one member."""

    def __init__(self, context: MemberContext, give_up: Callable[[GroupError], None]) -> None:
        """`give_up` ends the membership after a fault."""
        self._context = context
        self._give_up = give_up
        self._open: list[GenerationScope] = []
        """Generations that have not ended completely; the last one is the current one."""
        self._owned_partitions: set[OwnedPartition] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, generation: GenerationScope, grant: Grant) -> None:
        """Begin a generation that succeeds the open ones; partitions that they kept run on."""
        for before in self._open:
            before.begin_end(End.REVOKED, f"generation {grant.generation} follows")
            self._context.tasks.spawn(self._succeed(before), f"ends generation {before.id}")
        self._open.append(generation)

    def end(self, end: EndPartitions) -> None:
        """End these partitions, or the generation with all of them, and drain them."""
        ending = self._ending(end)
        for owned in ending:
            owned.ending.begin(end.end, end.cause)
            if owned.is_fetched:
                self._context.fetcher.pause(owned.partition)
            if owned.ending.end is End.LOST:
                owned.tasks.cancel()
        scopes = list(self._open) if end.partitions is None else []
        for generation in scopes:
            generation.begin_end(end.end, end.cause)
        self._owned_partitions |= ending
        if self._task is not None:
            self._task.cancel()
        self._task = self._context.tasks.spawn(self._drain(scopes, end.drain_ms / 1_000), "drains")

    def cancel_tasks(self) -> None:
        """Cancel all tasks: there is no time to drain them."""
        for owned in self._context.owned_partitions.values():
            owned.tasks.cancel()
        for generation in self._open:
            generation.cancel_tasks()

    def _ending(self, end: EndPartitions) -> set[OwnedPartition]:
        owned_partitions = self._context.owned_partitions
        if end.partitions is None:
            return set(owned_partitions.values())
        return {
            owned_partitions[partition]
            for partition in end.partitions
            if partition in owned_partitions
        }

    async def _drain(self, scopes: list[GenerationScope], seconds: float) -> None:
        try:
            await self._drain_in_order(scopes, seconds)
        except Exception as error:
            self._task = None
            self._force_end(f"draining failed: {error!r}")
            fault = GroupError(f"draining of group {self._context.name} failed: {error!r}")
            self._give_up(caused_by(error, fault))
        self._context.member.dispatch(self._context.membership.drained)

    def _force_end(self, cause: str) -> None:
        """End everything at once after a fault: the scopes must be left for the error to show."""
        for owned in self._owned_partitions.union(self._context.owned_partitions.values()):
            owned.ending.begin(End.LOST, cause)
            owned.tasks.cancel()
            owned.ending.over.set()
        for generation in list(self._open):
            generation.begin_end(End.LOST, cause)
            self._finish(generation)
        self._owned_partitions.clear()

    async def _drain_in_order(self, scopes: list[GenerationScope], seconds: float) -> None:
        owned_partitions = list(self._owned_partitions)
        async with asyncio.TaskGroup() as all_:
            all_.create_task(drain([owned.tasks for owned in owned_partitions], seconds))
            for generation in scopes:
                all_.create_task(generation.join(seconds))
        await self._flush(owned_partitions)
        for owned in owned_partitions:
            self._context.release(owned)
        for generation in scopes:
            self._finish(generation)
        self._owned_partitions.clear()
        self._task = None

    async def _succeed(self, before: GenerationScope) -> None:
        """End the scope of a cooperative generation that has a successor."""
        await before.join(self._context.config.drain_ms / 1_000)
        while self._task is not None:
            await asyncio.wait([self._task])
        self._finish(before)

    async def _flush(self, owned_partitions: list[OwnedPartition]) -> None:
        """Commit marked offsets before their partitions go to other members.

        Commits in flight also have to arrive before the coordinator hears that the partitions end.
        """
        marked = self._context.marked
        if not marked.concern(owned_partitions):
            return
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await marked.commit()
        except (KohortError, TimeoutError) as error:
            self._context.events.emit_event(
                "commit failed", f"on revocation: {error or 'no response in time'}"
            )

    def _finish(self, generation: GenerationScope) -> None:
        generation.finish()
        if generation in self._open:
            self._open.remove(generation)
