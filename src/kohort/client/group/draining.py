"""How a member's partitions and generations end: what works on them is drained, what was marked is
committed, and only then does the membership hear that it may go on.

While something drains, more may have to end, or harder: one drain of all that is left then takes
the place of the other.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.owned_partition import OwnedPartition, drain
from kohort.client.membership import End, EndPartitions, Grant
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.client.group.run import GroupRun

FLUSH_S: Final = 5.0
"""How long the last commits of what ends may take."""


class Draining:
    """Of one member. `run.on_drained` is called when nothing ends any more."""

    def __init__(self, run: "GroupRun") -> None:
        self._run = run
        self._open: list[GenerationScope] = []
        """Generations that have not ended entirely; the last one is the present one."""
        self._owned_partitions: set[OwnedPartition] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, generation: GenerationScope, grant: Grant) -> None:
        """A generation begins, and follows those that are open: what they kept runs on."""
        for before in self._open:
            before.begin_end(End.REVOKED, f"generation {grant.generation} follows")
            self._run.spawn(self._succeed(before), f"ends generation {before.id}")
        self._open.append(generation)

    def end(self, end: EndPartitions) -> None:
        """End these partitions, or the generation with all of them, and drain them."""
        ending = self._ending(end)
        for owned in ending:
            owned.ending.begin(end.end, end.cause)
            if owned.is_fetched:
                self._run.fetcher.pause(owned.partition)
            if owned.ending.end is End.LOST:
                owned.tasks.cancel()
        scopes = list(self._open) if end.partitions is None else []
        for generation in scopes:
            generation.begin_end(end.end, end.cause)
        self._owned_partitions |= ending
        if self._task is not None:
            self._task.cancel()
        self._task = self._run.spawn(self._drain(scopes, end.drain_ms / 1_000), "drains")

    def _ending(self, end: EndPartitions) -> set[OwnedPartition]:
        owned_partitions = self._run.owned_partitions
        if end.partitions is None:
            return set(owned_partitions.values())
        return {owned_partitions[each] for each in end.partitions if each in owned_partitions}

    async def _drain(self, scopes: list[GenerationScope], seconds: float) -> None:
        owned_partitions = list(self._owned_partitions)
        async with asyncio.TaskGroup() as all_:
            all_.create_task(drain([owned.tasks for owned in owned_partitions], seconds))
            for generation in scopes:
                all_.create_task(generation.join(seconds))
        await self._flush(owned_partitions)
        for owned in owned_partitions:
            self._run.release(owned)
        for generation in scopes:
            self._finish(generation)
        self._owned_partitions.clear()
        self._task = None
        self._run.on_drained()

    async def _succeed(self, before: GenerationScope) -> None:
        """End the scope of a cooperative generation that another one follows."""
        await before.join(self._run.config.drain_ms / 1_000)
        while self._task is not None:
            await asyncio.wait([self._task])
        self._finish(before)

    async def _flush(self, owned_partitions: list[OwnedPartition]) -> None:
        """Commit what was marked, before its partitions go to others; what is on its way already,
        too, must arrive before the coordinator hears that they do.
        """
        marked = self._run.marked
        if not marked.concern(owned_partitions):
            return
        try:
            async with asyncio.timeout(FLUSH_S):
                await marked.commit()
        except (KohortError, TimeoutError) as error:
            self._run.tell("commit failed", f"on revocation: {error or 'no response in time'}")

    def _finish(self, generation: GenerationScope) -> None:
        generation.finish()
        if generation in self._open:
            self._open.remove(generation)
