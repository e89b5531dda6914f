"""The order in which many shards are loaded, as when a node takes over from a failed one."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class LoadingOrder:
    """Shards load one after the other; those that clients request are loaded first."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, asyncio.Future[None]] = {}
        """Waiting shards, in loading order."""
        self._is_busy = False

    @asynccontextmanager
    async def turn(self, shard: Hashable) -> AsyncIterator[None]:
        """Wait for the turn of a shard, which lasts until the end of the block."""
        await self._wait(shard)
        try:
            yield
        finally:
            self._go_on()

    async def _wait(self, shard: Hashable) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn = self._waiting[shard] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.get(shard) is turn:
                del self._waiting[shard]
            elif turn.done() and not turn.cancelled():
                self._go_on()  # it was this one's turn
            raise

    def _go_on(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(next(iter(self._waiting)))
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False

    def ask(self, shard: Hashable) -> None:
        """Load this shard next: a client requests it."""
        turn = self._waiting.pop(shard, None)
        if turn is not None:
            self._waiting = {shard: turn, **self._waiting}
