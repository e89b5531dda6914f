"""Rates at which connections are created, as `max.connection.creation.rate` limits them."""

from typing import Final

BURST_S: Final = 10
"""Seconds worth of connections that may come at once, as with Kafka's windows."""


class CreationRate:
    """A bucket that fills at the rate, and from which each connection takes one."""

    def __init__(self, per_second: int, now: float) -> None:
        self._per_second = per_second
        self._level = float(per_second * BURST_S)
        self._filled_at = now

    def limit(self, per_second: int) -> None:
        """Fill at another rate from now on."""
        self._per_second = per_second
        self._level = min(self._level, per_second * BURST_S)

    def delay(self, now: float) -> float:
        """Seconds until a connection may be created; 0: at once."""
        passed, self._filled_at = now - self._filled_at, now
        most = float(self._per_second * BURST_S)
        self._level = min(self._level + passed * self._per_second, most)
        return 0.0 if self._level >= 1 else (1 - self._level) / self._per_second

    def take(self) -> None:
        """A connection is created."""
        self._level -= 1
