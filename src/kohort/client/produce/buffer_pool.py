"""Limits the memory of unsettled records (Kafka's BufferPool): senders wait while it is used up."""

import asyncio


class BufferPool:
    """The bytes that one producer may buffer."""

    __slots__ = ("_freed", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._freed = asyncio.Event()

    def has(self, size: int) -> bool:
        """Whether `size` more bytes may be taken; a record above the limit is admitted alone."""
        return not self.used or self.used + size <= self.limit

    def take(self, size: int) -> None:
        """Count `size` bytes as used."""
        self.used += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes as free, and wake those who wait."""
        self.used -= size
        self._freed.set()

    async def wait_for(self, size: int) -> None:
        """Wait until `size` bytes may be taken; the caller sets the time limit."""
        while not self.has(size):
            self._freed.clear()
            await self._freed.wait()
