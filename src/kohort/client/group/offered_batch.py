"""Batches on their way from the workers of a group to an application that takes them one by one.

A worker offers a batch and waits until the application has finished it. The partition is given up
when its batch is finished, or when `drain_timeout_ms` are over. A batch that the application has
not taken is withdrawn then, and also when another offset is sought.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kohort.client.fetch import Batch
from kohort.client.group.bound_generation import BoundGeneration
from kohort.client.group.generation import Generation
from kohort.client.group_errors import GenerationEndedError
from kohort.types import TopicPartition

_TAKEN: Final = "taken"
_WITHDRAWN: Final = "withdrawn"


class OfferedBatch:
    """A batch that is offered, taken or finished; `take` may be called in any thread."""

    def __init__(self, generation: BoundGeneration[Any, Any], batch: Batch[Any, Any]) -> None:
        self.generation = generation
        self.batch = batch
        self.finished = asyncio.Event()
        self.position = batch.first_offset
        """Offset after the finished records, for the worker to commit."""
        self.is_ending = False
        """The partition waits to be given up: no further record is returned."""
        self.is_sought = False
        """Whether the application called `seek` meanwhile."""
        self.is_abandoned = False
        self._fate: dict[None, str] = {}
        """Taken or withdrawn, whichever came first. No lock: an interrupt might leave it locked."""

    def take(self) -> bool:
        """Whether the application has it now; False if it was withdrawn."""
        return self._fate.setdefault(None, _TAKEN) is _TAKEN

    def withdraw(self) -> bool:
        """Whether the application does not get it; False if it has it already."""
        return self._fate.setdefault(None, _WITHDRAWN) is _WITHDRAWN

    def undelivered(self) -> int:
        """Offsets of the batch if the application has not taken it, else 0."""
        is_taken = self._fate.get(None) is _TAKEN
        return 0 if is_taken else self.batch.next_offset - self.batch.first_offset


class OfferedBatches:
    """The workers of one member; all but the batches is used on the event loop."""

    def __init__(self, put: Callable[[OfferedBatch], None], commit_interval_ms: int) -> None:
        """`put` hands a batch to the application.

        Positions are committed at the interval, when a batch is finished after it, and when the
        partition is given up.
        """
        self._put = put
        self._interval_s = commit_interval_ms / 1_000
        self._offered: dict[TopicPartition, OfferedBatch] = {}

    async def work(self, generation: Generation[Any, Any], partition: TopicPartition) -> None:
        """The task of a partition."""
        assert isinstance(generation, BoundGeneration)
        while await self._offer_until_sought(generation, partition):
            pass

    async def _offer_until_sought(
        self, generation: BoundGeneration[Any, Any], partition: TopicPartition
    ) -> bool:
        """Whether to go on with a new iterator, for which the batch in work is not passed."""
        commits = _Commits(generation, partition, self._interval_s)
        async for batch in generation.records(partition):
            offered = self._offered[partition] = OfferedBatch(generation, batch)
            self._put(offered)
            try:
                await self._settle(offered, commits)
            finally:
                offered.withdraw()
                del self._offered[partition]
            if offered.is_sought:
                return True
            if offered.is_abandoned or offered.is_ending:
                return False
        await commits.flush()
        return False

    async def _settle(self, offered: OfferedBatch, commits: "_Commits") -> None:
        """Wait until the batch is finished, or withdrawn because the partition ends."""
        finished = asyncio.ensure_future(offered.finished.wait())
        ending = asyncio.ensure_future(offered.generation.ending())
        try:
            while not finished.done() and not ending.done():
                await asyncio.wait(
                    (finished, ending),
                    timeout=self._interval_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                await commits.up_to(offered)
            if not finished.done():
                offered.is_ending = True
                if not offered.withdraw():
                    await finished
            if ending.done() or offered.is_abandoned:
                await commits.up_to(offered, now=True)
        finally:
            finished.cancel()
            ending.cancel()

    # --- positions

    def seek(
        self, generation: Generation[Any, Any], partition: TopicPartition, offset: int
    ) -> None:
        """Continue at `offset`; drop the remaining records of the batch in work."""
        generation.seek(partition, offset)
        offered = self._offered.get(partition)
        if offered is not None:
            offered.is_sought = True
            if offered.withdraw():
                offered.finished.set()

    def pause(self, generation: Generation[Any, Any], partition: TopicPartition) -> None:
        """Hand out no further batch of the partition until it is resumed."""
        generation.pause(partition)
        offered = self._offered.get(partition)
        if offered is not None and offered.withdraw():
            self.seek(generation, partition, offered.batch.first_offset)

    def undelivered(self, partition: TopicPartition) -> int:
        """Offsets before the generation's position that the application has not taken."""
        offered = self._offered.get(partition)
        return 0 if offered is None or offered.is_sought else offered.undelivered()


class _Commits:
    """Committed offset of one partition's finished records."""

    def __init__(
        self, generation: Generation[Any, Any], partition: TopicPartition, interval_s: float
    ) -> None:
        self._generation = generation
        self._partition = partition
        self._interval_s = interval_s
        self._position: int | None = None
        self._committed: int | None = None
        self._last_flush = asyncio.get_running_loop().time()

    async def up_to(self, offered: OfferedBatch, *, now: bool = False) -> None:
        """Commit the finished records of the batch, if the interval is over or `now`."""
        if offered.position > offered.batch.first_offset:
            self._position = offered.position
        if now or asyncio.get_running_loop().time() >= self._last_flush + self._interval_s:
            await self.flush()

    async def flush(self) -> None:
        """Commit finished records, unless the partition was lost."""
        if self._position is None or self._position == self._committed:
            return
        position, self._last_flush = self._position, asyncio.get_running_loop().time()
        try:
            await self._generation.commit({self._partition: position})
        except GenerationEndedError:
            return  # its next owner reads the records again
        self._committed = position
