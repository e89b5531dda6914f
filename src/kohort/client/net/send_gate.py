"""Blocks the requests of a connection while there is a reason to; several may exist at a time."""

import asyncio
from enum import Enum


class BlockReason(Enum):
    """A reason why nothing may be sent."""

    FULL = "the transport takes no more"
    RENEWING = "authentication is being renewed"
    THROTTLED = "the broker asked for a pause"


class SendGate:
    """Open while no `BlockReason` is set, and after `closed_for_good`."""

    def __init__(self) -> None:
        self._reasons: set[BlockReason] = set()
        self._opened = asyncio.Event()
        self._opened.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    async def passed(self) -> None:
        """Wait until the gate is open."""
        while not self._opened.is_set():
            await self._opened.wait()

    def block(self, reason: BlockReason) -> None:
        """Send nothing until `unblock` is called with the same reason."""
        self._reasons.add(reason)
        if not self._is_over:
            self._opened.clear()

    def unblock(self, reason: BlockReason) -> None:
        """Remove the reason; the gate opens when it was the last one."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._opened.set()

    def throttle(self, seconds: float) -> None:
        """Block requests for at least so long (KIP-219)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._is_over or (self._timer is not None and self._timer.when() >= until):
            return
        if self._timer is not None:
            self._timer.cancel()
        self.block(BlockReason.THROTTLED)
        self._timer = loop.call_at(until, self.unblock, BlockReason.THROTTLED)

    def closed_for_good(self) -> None:
        """Let all waiting requests pass: the connection has ended, and sending raises."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._opened.set()
