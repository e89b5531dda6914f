"""The log of a partition that another node leads, and that this node is to lead next."""

import asyncio
from collections.abc import Awaitable, Callable

from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.elsewhere import ElsewhereLog
from kohort.types import TopicPartition


class StandbyLog(ElsewhereLog):
    """A `Log` that refuses everything as one elsewhere, but can be read on by who is to serve it.

    It is ready when its reader has come to the end once, at once if there is no reader.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        checkpoint: Checkpoint,
        read_on: Callable[[int], Awaitable[bytes]],
    ) -> None:
        """`checkpoint` is what was stored before anything was read.

        A log that has another one when it is taken has removed batches since: what was read is to
        be read again. `read_on` gives whole batches from the one that holds or follows an offset,
        about a megabyte or less, empty at the end. They cannot be lost. It raises OSError.
        """
        super().__init__(topic_partition, config)
        self.checkpoint = checkpoint
        self.read_on = read_on
        self.is_ready = True
        self.on_ready: Callable[[], object] = _nothing
        """Called when it becomes ready."""
        self._again = asyncio.Event()

    def __repr__(self) -> str:
        return f"<StandbyLog {self.topic_partition}>"

    def begin_reading(self) -> None:
        """There is a reader, who has read nothing yet."""
        self.is_ready = False

    async def reached_end(self) -> None:
        """The reader has come to the end; return when it is to look for more."""
        self.end_reading()
        await self.pause()

    async def pause(self) -> None:
        """Return when the reader is to look again, which `look` says."""
        self._again.clear()
        await self._again.wait()

    def end_reading(self) -> None:
        """The reader is ready, or cannot read it at all: nobody waits for it."""
        if not self.is_ready:
            self.is_ready = True
            self.on_ready()

    def look(self) -> None:
        """Have the reader look for more."""
        self._again.set()


def _nothing() -> None:
    pass
