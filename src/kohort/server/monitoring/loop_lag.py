"""Lag of the event loop: how late it runs a timer that is due."""

import asyncio
from typing import Final

_INTERVAL_S: Final = 0.5


class LoopLag:
    """The worst lag of the running loop since it was last taken."""

    def __init__(self) -> None:
        self._worst_s = 0.0

    async def probe(self) -> None:
        """Measure without end, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _INTERVAL_S
            await asyncio.sleep(_INTERVAL_S)
            self._worst_s = max(self._worst_s, loop.time() - due)

    def pop_worst_s(self) -> float:
        """The worst lag in seconds; the next call starts from 0."""
        worst, self._worst_s = self._worst_s, 0.0
        return worst
