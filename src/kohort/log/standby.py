"""The log of a partition that another node leads, and that this node is to lead next."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.remote_log import RemoteLog
from kohort.types import TopicPartition


class Source(Protocol):
    """Durable batches that another node appends to a log."""

    async def checkpoint(self) -> Checkpoint:
        """The checkpoint of the log as it is stored now. Raises OSError.

        A log that has another one when it is taken has removed batches since: what was read is to
        be read again.
        """
        ...

    async def read_on(self, offset: int) -> bytes:
        """Whole batches from the one that holds or follows `offset`; empty at the end.

        About a megabyte or less. Raises OSError.
        """
        ...


class StandbyLog(RemoteLog):
    """A `Log` that refuses everything as one elsewhere, but whose `source` can be read.

    It is ready when its reader has come to the end once, at once if there is no reader.
    """

    def __init__(self, topic_partition: TopicPartition, config: LogConfig, source: Source) -> None:
        super().__init__(topic_partition, config)
        self.source = source
        self.is_ready = True
        self.on_ready: Callable[[], object] = _nothing
        """Called when it becomes ready."""
        self._again = asyncio.Event()

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
        """The reader is ready, or cannot read the log at all."""
        if not self.is_ready:
            self.is_ready = True
            self.on_ready()

    def look(self) -> None:
        """Wake up the reader to look for more."""
        self._again.set()


def _nothing() -> None:
    pass
