"""A member's session as the member sees it: when the next heartbeat is due, and until when the coordinator cannot have
given the member up. And how long something has failed, and when it is tried again.

Both are values that are told the time, like everything that `membership.py` is made of.
"""

from random import Random
from typing import Final

FIRST_BACKOFF_MS: Final = 100
JITTER: Final = 0.2


class Session:
    """Heartbeats of one member, in ms. There is at most one in flight."""

    def __init__(self, *, interval_ms: int, timeout_ms: int) -> None:
        self.alive_until: int | None = None
        """The coordinator may go on without this member from here on; None: there is no session."""
        self.beat_at: int | None = None
        """When the next heartbeat is due; None: none is, or one is in flight."""
        self.in_flight: int | None = None
        """Number of the heartbeat that is not answered yet."""
        self.failures = 0
        """Since the last answer."""
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._sent = 0

    def begin(self, now: int) -> None:
        """A join was answered. The session began when that was written, and nobody knows how long ago that was: a
        heartbeat interval is taken off for it. The answer to an older generation's heartbeat says nothing of this one.
        """
        self.alive_until = now - self._interval_ms + self._timeout_ms
        self.beat_at = now + self._interval_ms
        self.in_flight = None
        self.failures = 0

    def sent(self, number: int, now: int) -> None:
        """A heartbeat is on its way."""
        self.in_flight, self._sent, self.beat_at = number, now, None

    def answered(self, now: int) -> None:
        """The member is alive: since it sent what was answered, and not only since now."""
        self.alive_until = self._sent + self._timeout_ms
        self.beat_at = max(self._sent + self._interval_ms, now)
        self.failures = 0

    def failed(self, now: int, pause_ms: int) -> int:
        """No answer: the next heartbeat comes sooner. How many ms the session has left."""
        self.failures += 1
        self.beat_at = now + min(pause_ms, self._interval_ms)
        return (self.alive_until or now) - now

    def wait(self, now: int) -> None:
        """The answer was no news: the next heartbeat comes at its time."""
        self.beat_at = now + self._interval_ms

    def pause(self) -> None:
        """No heartbeats for now: a join that is parked stands for them."""
        self.beat_at = None

    def end(self) -> None:
        """There is no session any more."""
        self.alive_until = self.beat_at = self.in_flight = None


class Tries:
    """How often something failed in a row, and since when."""

    def __init__(self) -> None:
        self.failures = 0
        self._since: int | None = None

    def failed(self, now: int) -> int:
        """Once more. Since how many ms that is so."""
        self.failures += 1
        self._since = now if self._since is None else self._since
        return now - self._since

    def succeeded(self) -> None:
        self.failures, self._since = 0, None


def backoff_ms(failures: int, longest_ms: int, random: Random) -> int:
    """Twice as long with each failure, and never the same for all (KIP-580)."""
    pause = min(FIRST_BACKOFF_MS << min(max(failures - 1, 0), 16), max(longest_ms, 1))
    return max(1, round(pause * random.uniform(1 - JITTER, 1 + JITTER)))
