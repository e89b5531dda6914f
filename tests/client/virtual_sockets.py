"""An event loop in virtual time for tests that use real sockets within one process.

The clock hardly moves while there are socket events. When none came for GRACE_S of real time, it
jumps to the next timer. A process that was not scheduled for a while therefore misses no time
limit. What belongs into a thread is run at once, since a thread's result is no socket event.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

GRACE_S = 0.005
"""Real time in which what was written to a socket of this process becomes readable."""
TURN_S = 0.0001
"""Virtual time of a turn with socket events: those who wait for a moment while busy see it come."""


class SocketVirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps when all sockets are quiet."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(_PatientSelector(self))

    def time(self) -> float:
        return self.seconds

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _PatientSelector(selectors.DefaultSelector):
    def __init__(self, loop: SocketVirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        events = super().select(min(timeout, GRACE_S))
        self._loop.seconds += TURN_S if events else timeout
        return events
