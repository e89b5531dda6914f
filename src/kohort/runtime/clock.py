"""The two clocks of a process: one for deadlines, one for dates."""

import time
from typing import Protocol

from kohort.types import Instant, Timestamp


class Clock(Protocol):
    def now(self) -> Instant:
        """Milliseconds of a monotonic clock, for sessions, rebalances and every other deadline.

        It never runs backwards, and stands still while the machine is suspended.
        """
        ...

    def timestamp(self) -> Timestamp:
        """Milliseconds since the Unix epoch, for what is logged and for retention.

        It jumps in either direction when the machine's clock is set.
        """
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> Instant:
        # CLOCK_MONOTONIC, as the event loop's timers and Kafka's: members that were suspended with
        # the server still have the rest of their session when both go on.
        return Instant(time.monotonic_ns() // 1_000_000)

    def timestamp(self) -> Timestamp:
        return Timestamp(time.time_ns() // 1_000_000)
