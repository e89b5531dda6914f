"""The state of a shard that another node serves, replayed in advance from its log.

When this node takes over the shard, it replays only the rest of the log.
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
"""Returns the records of batches, in chunks that are replayed in some milliseconds each."""


class Standby(Generic[ShardT, RecordT]):
    """A shard, and the offset up to which it has replayed the log."""

    def __init__(self, log: StandbyLog, shard: ShardT, records_in: RecordsIn[RecordT]) -> None:
        self.log = log
        self.shard = shard
        self._records_in = records_in
        self._checkpoint: Checkpoint | None = None
        """Checkpoint of the log before the first read."""
        self._offset = 0
        """Offset of the next batch to read."""
        self._chunks: Iterator[Sequence[RecordT]] = iter(())
        """Records before that offset that were read and not replayed."""
        self._is_broken = False
        log.begin_reading()

    async def follow(
        self,
        replay: Callable[[RecordT], None],
        turn: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """Replay the leader's appends until cancelled, or until a record cannot be read.

        `turn` waits for this shard's turn in the loading order.
        """
        try:
            while True:
                async with turn():
                    for records in self._chunks:
                        for record in records:
                            replay(record)
                        await asyncio.sleep(0)
                await self._read()
        except Exception:  # `ShardHost.load` will log the error
            self._is_broken = True
            self.log.end_reading()

    async def _read(self) -> None:
        """Read more records; wait if there are none, or if they cannot be read now."""
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
        """Whether the log has all replayed batches, and none was removed since."""
        return (
            not self._is_broken
            and log.topic_partition == self.log.topic_partition
            and log.checkpoint == self._checkpoint
            and self._offset <= log.end_offset
        )

    def rest(self, log: Log) -> Iterator[Sequence[RecordT]]:
        """The records of the log that were not replayed. Raises as `read_batches`."""
        yield from self._chunks
        yield from self._records_in(read_batches(log, self._offset))
