"""Blocks the requests of a connection while there is a reason; several may exist at a time."""

import asyncio
from enum import Enum


class BlockReason(Enum):
    """A reason to send no requests."""

    FULL = "the transport's buffer is full"
    RENEWING = "authentication is being renewed"
    THROTTLED = "the broker throttles the client"


class SendGate:
    """Open while no `BlockReason` is set, and after `release_all`."""

    def __init__(self) -> None:
        self._reasons: set[BlockReason] = set()
        self._opened = asyncio.Event()
        self._opened.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    async def wait_open(self) -> None:
        """Wait until the gate is open."""
        while not self._opened.is_set():
            await self._opened.wait()

    def block(self, reason: BlockReason) -> None:
        """Block requests until `unblock` is called with the same reason."""
        self._reasons.add(reason)
        if not self._is_over:
            self._opened.clear()

    def unblock(self, reason: BlockReason) -> None:
        """Remove the reason; the gate opens after the last one."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._opened.set()

    def throttle(self, seconds: float) -> None:
        """Block requests for at least this time (KIP-219)."""
        loop = asyncio.get_running_loop()
        unblock_at = loop.time() + seconds
        if self._is_over or (self._timer is not None and self._timer.when() >= unblock_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self.block(BlockReason.THROTTLED)
        self._timer = loop.call_at(unblock_at, self.unblock, BlockReason.THROTTLED)

    def release_all(self) -> None:
        """Let all waiting requests pass: the connection has ended, and sending raises."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._opened.set()
