"""Limits the memory of unsettled records (Kafka's BufferPool): senders wait while it is used up."""

import asyncio

from kohort.client.errors import BufferFullError
from kohort.types import TopicPartition


class BufferPool:
    """The bytes that one producer may buffer."""

    __slots__ = ("_freed", "_max_block_s", "limit", "used", "waiting")

    def __init__(self, limit: int, max_block_s: float) -> None:
        self.limit = limit
        self.used = 0
        self.waiting = 0
        """Number of callers that wait for memory: batches are sent without lingering then."""
        self._max_block_s = max_block_s
        self._freed = asyncio.Event()

    def has(self, size: int) -> bool:
        """Whether `size` more bytes may be taken; a record above the limit is admitted alone."""
        return not self.used or self.used + size <= self.limit

    def reserve(self, size: int) -> None:
        """Count `size` bytes as used."""
        self.used += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes as free, and wake waiting callers."""
        self.used -= size
        self._freed.set()

    async def wait_for(self, tp: TopicPartition, size: int) -> None:
        """Wait until `size` bytes may be taken, for a record of `tp`. Raises BufferFullError."""
        self.waiting += 1
        try:
            async with asyncio.timeout(self._max_block_s):
                while not self.has(size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise BufferFullError(
                f"{tp}: no room for a record within {self._max_block_s:g} s, {self.used} bytes "
                "wait for the brokers; send more slowly, or raise buffer_memory or max_block_ms"
            ) from None
        finally:
            self.waiting -= 1
