"""The memory that unsettled records may take (Kafka's BufferPool): senders wait while it is used
up.
"""

import asyncio


class BufferPool:
    """Bytes, of one producer."""

    __slots__ = ("_freed", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._freed = asyncio.Event()

    def has(self, size: int) -> bool:
        """Whether so many more may be taken. One that is larger than all the room is let in alone."""
        return not self.used or self.used + size <= self.limit

    def take(self, size: int) -> None:
        """So many are used from now on."""
        self.used += size

    def give_back(self, size: int) -> None:
        """So many are not used any more."""
        self.used -= size
        self._freed.set()

    async def wait_for(self, size: int) -> None:
        """Until there is room for `size`. Who waits has a time limit of its own."""
        while not self.has(size):
            self._freed.clear()
            await self._freed.wait()
