"""Failed authentications by address: one that guesses passwords has to wait."""

from collections import Counter
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 60.0
_MAX_NETWORKS: Final = 100_000


class FailedLogins:
    """Counts failures per minute and network: an IPv4 address, or 64 bits of an IPv6 address."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        """`limit` per minute; `clock` gives seconds."""
        self._limit = limit
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._period_ends = 0.0

    def count(self, host: str) -> None:
        """One more from `host`, an IP address as Java prints it."""
        self._begin_period()
        if len(self._counts) < _MAX_NETWORKS:
            self._counts[_network(host)] += 1

    def is_blocked(self, host: str) -> bool:
        """Whether the clients of its network have to wait until the minute has passed."""
        self._begin_period()
        return self._counts[_network(host)] >= self._limit

    def _begin_period(self) -> None:
        now = self._clock()
        if now >= self._period_ends:
            self._counts.clear()
            self._period_ends = now + PERIOD_S


def _network(host: str) -> str:
    return ":".join(host.split(":")[:4])
