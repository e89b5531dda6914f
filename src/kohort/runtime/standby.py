"""The state of a shard that another node serves, as far as its log was read here.

This node is to serve the shard next. Then it replays the rest of the log, and nothing twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeAlias, TypeVar

from kohort.log.backing import Checkpoint
from kohort.log.base import Log
from kohort.log.standby import StandbyLog
from kohort.runtime.log_reading import Batches, batches_in, read_batches

ShardT = TypeVar("ShardT")
RecordT = TypeVar("RecordT")
RecordsIn: TypeAlias = Callable[[Iterable[Batches]], Iterator[Sequence[RecordT]]]
"""Gives the records of batches, in chunks that are replayed in some milliseconds each."""


class Standby(Generic[ShardT, RecordT]):
    """A shard, and the place in the log up to which it has replayed the records."""

    def __init__(self, log: StandbyLog, shard: ShardT, records_in: RecordsIn[RecordT]) -> None:
        self.log = log
        self.shard = shard
        self._records_in = records_in
        self._checkpoint: Checkpoint | None = None
        """As it was before anything was read."""
        self._offset = 0
        """Of the batch that is to be read next."""
        self._chunks: Iterator[Sequence[RecordT]] = iter(())
        """What was read before it, and not replayed."""
        self._is_broken = False
        log.begin_reading()

    async def follow(
        self,
        replay: Callable[[RecordT], None],
        turn: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """Replay what the leader appends, until this is cancelled, or a record cannot be read.

        `turn` waits for this shard's turn among those that are loaded.
        """
        try:
            while True:
                async with turn():
                    for records in self._chunks:
                        for record in records:
                            replay(record)
                        await asyncio.sleep(0)
                await self._read()
        except Exception:  # as in `ShardHost.load`, which says what is wrong
            self._is_broken = True
            self.log.end_reading()

    async def _read(self) -> None:
        """Read more; wait until there may be some if there is none, or it cannot be had now."""
        source = self.log.source
        try:
            if self._checkpoint is None:
                self._checkpoint = await source.checkpoint()
                self._offset = self._checkpoint.start_offset
            data = await source.read_on(self._offset)
        except OSError:
            await self.log.pause()
            return
        if not data:
            await self.log.reached_end()
            return
        batches = batches_in(data)
        self._chunks = self._records_in((batches,))
        self._offset = batches.end_offset

    def continues_in(self, log: Log) -> bool:
        """Whether the log has all that was replayed, and no batch was removed from it since."""
        return (
            not self._is_broken
            and log.topic_partition == self.log.topic_partition
            and log.checkpoint == self._checkpoint
            and self._offset <= log.end_offset
        )

    def rest(self, log: Log) -> Iterator[Sequence[RecordT]]:
        """The records of the log that were not replayed. Raises as `read_batches` does."""
        yield from self._chunks
        yield from self._records_in(read_batches(log, self._offset))
