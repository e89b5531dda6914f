"""The time that everything in a process is judged by."""

import time
from typing import Protocol

from kohort.types import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds since the Unix epoch; never runs backwards."""
        ...


class SystemClock:
    """The wall clock at the start of the process, advanced by the monotonic clock.

    Sessions and rounds must not end early, or never, when the machine's clock is set.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> Instant:
        return Instant((time.monotonic_ns() + self._offset_ns) // 1_000_000)
