"""Holds back requests on a connection while there is an obstacle; several may exist at a time."""

import asyncio
from enum import Enum


class Obstacle(Enum):
    """A reason why nothing may be sent."""

    FULL = "the transport takes no more"
    RENEWING = "authentication is being renewed"
    THROTTLED = "the broker asked for a pause"


class SendGate:
    """Open while there is no obstacle, and after `closed_for_good`."""

    def __init__(self) -> None:
        self._obstacles: set[Obstacle] = set()
        self._passable = asyncio.Event()
        self._passable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    async def passed(self) -> None:
        """Wait until there is no obstacle."""
        while not self._passable.is_set():
            await self._passable.wait()

    def hold(self, obstacle: Obstacle) -> None:
        """Add an obstacle."""
        self._obstacles.add(obstacle)
        if not self._is_over:
            self._passable.clear()

    def let_go(self, obstacle: Obstacle) -> None:
        """Remove an obstacle."""
        self._obstacles.discard(obstacle)
        if not self._obstacles:
            self._passable.set()

    def throttle(self, seconds: float) -> None:
        """Hold back requests for at least so long (KIP-219)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._is_over or (self._timer is not None and self._timer.when() >= until):
            return
        if self._timer is not None:
            self._timer.cancel()
        self.hold(Obstacle.THROTTLED)
        self._timer = loop.call_at(until, self.let_go, Obstacle.THROTTLED)

    def closed_for_good(self) -> None:
        """Let all waiting requests pass: the connection has ended, and sending raises."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._passable.set()
