"""Rates at which connections are created: of a listener or a server, and of single addresses."""

from collections.abc import Callable
from typing import Final

BURST_S: Final = 10
"""Seconds worth of connections that may come at once, as with Kafka's windows."""
MAX_ADDRESSES: Final = 20_000
"""Addresses whose connections are counted; of more, the one known longest is forgotten."""
MAX_WAIT_S: Final = 1.0
"""Time until a connection beyond the quota of its address is closed: Kafka's, one window."""


class CreationRate:
    """A bucket that fills at the rate, and from which each connection takes one."""

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._level = self._capacity
        self._filled_at = now

    @property
    def _capacity(self) -> float:
        return max(self._per_second * BURST_S, 1.0)

    def limit(self, per_second: float) -> None:
        """Fill at another rate from now on."""
        self._per_second = per_second
        self._level = min(self._level, self._capacity)

    def delay(self, now: float) -> float:
        """Seconds until a connection may be created; 0: at once."""
        passed, self._filled_at = now - self._filled_at, now
        self._level = min(self._level + passed * self._per_second, self._capacity)
        return 0.0 if self._level >= 1 else (1 - self._level) / self._per_second

    def take(self) -> None:
        """A connection is created."""
        self._level -= 1


class AddressRates:
    """The quota `connection_creation_rate` of addresses."""

    def __init__(self, rate_of: Callable[[str], float | None]) -> None:
        """`rate_of` is the quota of an address, None if it has none."""
        self._rate_of = rate_of
        self._rates: dict[str, CreationRate] = {}

    def wait(self, host: str, now: float) -> float:
        """Count a new connection; seconds until it is to be closed, 0 if it is to be served."""
        per_second = self._rate_of(host)
        if per_second is None:
            return 0.0
        rate = self._rates.get(host)
        if rate is None:
            if len(self._rates) >= MAX_ADDRESSES:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[host] = CreationRate(per_second, now)
        rate.limit(per_second)
        delay = rate.delay(now)
        if not delay:
            rate.take()
        return min(delay, MAX_WAIT_S)
