"""Whether requests may be sent on a connection just now: several things may be in the way, each for
itself.
"""

import asyncio
from enum import Enum


class Obstacle(Enum):
    """Why nothing may be sent."""

    FULL = "the transport takes no more"
    RENEWING = "authentication is being renewed"
    THROTTLED = "the broker asked for a pause"


class SendGate:
    """Open while there is no obstacle; once it is `closed_for_good` nobody waits any more."""

    def __init__(self) -> None:
        self._obstacles: set[Obstacle] = set()
        self._passable = asyncio.Event()
        self._passable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    async def passed(self) -> None:
        """Wait until there are no obstacles."""
        while not self._passable.is_set():
            await self._passable.wait()

    def hold(self, obstacle: Obstacle) -> None:
        """This is in the way from now on."""
        self._obstacles.add(obstacle)
        if not self._is_over:
            self._passable.clear()

    def let_go(self, obstacle: Obstacle) -> None:
        """This is not in the way any more."""
        self._obstacles.discard(obstacle)
        if not self._obstacles:
            self._passable.set()

    def throttle(self, seconds: float) -> None:
        """Hold for so long at least (KIP-219)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._is_over or (self._timer is not None and self._timer.when() >= until):
            return
        if self._timer is not None:
            self._timer.cancel()
        self.hold(Obstacle.THROTTLED)
        self._timer = loop.call_at(until, self.let_go, Obstacle.THROTTLED)

    def closed_for_good(self) -> None:
        """The connection has ended: whoever waits goes on, and is told so when sending."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._passable.set()
