"""What happened on an embedded server, for the report of a failed test."""

from collections import deque
from datetime import UTC, datetime
from typing import Final

from kohort.coordinator.journal import Rebalance
from kohort.runtime.clock import Clock
from kohort.testing.embedded.group_state import from_journal

MAX_LINES: Final = 1_000


class Timeline:
    """The latest events, each with the server's time. It is added to on the loop of the server.

    Any thread may read its text.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[tuple[int, str]] = deque(maxlen=MAX_LINES)

    def add(self, text: str) -> None:
        """Note an event that happens now."""
        self._events.append((self._clock.timestamp(), text))

    def add_rebalance(self, rebalance: Rebalance) -> None:
        """Note a rebalance that has ended."""
        self.add(f"group {rebalance.group}: {from_journal(rebalance)}")

    def __str__(self) -> str:
        return "\n".join(f"{_time_of_day(at)} {text}" for at, text in list(self._events))


def _time_of_day(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]
