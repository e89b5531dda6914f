"""The two clocks of a process: one for deadlines, one for dates."""

import time
from typing import Protocol

from kohort.types import Instant, Timestamp


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds of a monotonic clock, for sessions, rebalances and every other deadline.

        It never runs backwards, and stops while the machine is suspended.
        """
        ...

    def timestamp(self) -> Timestamp:
        """Milliseconds since the Unix epoch, for logged times and for retention.

        It jumps forwards or backwards when the machine's clock is set.
        """
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> Instant:
        # CLOCK_MONOTONIC, as the event loop's timers and Kafka's: members that were suspended
        # together with the server keep the rest of their sessions.
        return Instant(time.monotonic_ns() // 1_000_000)

    def timestamp(self) -> Timestamp:
        return Timestamp(time.time_ns() // 1_000_000)
