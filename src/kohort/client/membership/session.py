"""A member's session as the member sees it: when the next heartbeat is due, and until when the
coordinator cannot have given the member up. And how long something has failed, and when it is tried
again.

Both are values that are told the time, like everything that `membership.py` is made of.
"""

from random import Random
from typing import Final

FIRST_BACKOFF_MS: Final = 100
JITTER: Final = 0.2


class MemberSession:
    """Heartbeats of one member, in ms. There is at most one in flight.

    A coordinator goes on without a member for two reasons: it has not heard of it for the session
    timeout, or the group rebalances and the member has not joined for the rebalance timeout.
    Neither is told to a member that cannot be reached. So the member reckons from when it was last
    *included*: a heartbeat was sent then whose answer says that the group does not rebalance, or
    rebalances and has this member's join. Any later answer that only says "join again" proves that
    the session goes on, and not that the rebalance will wait any longer.
    """

    def __init__(self, *, interval_ms: int, timeout_ms: int, rebalance_timeout_ms: int) -> None:
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
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._sent = self._due = 0
        self._join_sent = 0
        self._included_before_join = 0
        self._heard_at = 0
        self.included_at = 0
        """When the coordinator last had this member in a group that did not wait for it, or later.
        """

    @property
    def rejoin_by(self) -> int:
        """A rebalance that nobody told of yet ends without this member from here on."""
        return self.included_at + self._rebalance_timeout_ms

    @property
    def waits_for_session(self) -> bool:
        """Whether `alive_until` is the session's end, and not that of a rebalance."""
        return self._heard_at + self._timeout_ms <= self.rejoin_by

    @property
    def was_sent_after_join(self) -> bool:
        """Whether the last heartbeat was sent later than the last JoinGroup, which then has arrived
        as well, most likely: it goes over a connection of its own.
        """
        return self._sent > self._join_sent

    def begin(self, now: int, *, holds: bool) -> None:
        """A join was answered. The answer to an older generation's heartbeat says nothing of this
        one.

        Nobody knows when that was written: for what is held already the session lasts as long as it
        did, and for a member that holds nothing a heartbeat interval is taken off.
        """
        if not holds:
            self.included_at = now - self._interval_ms
            self._heard(self.included_at)
        self.beat_at = now + self._interval_ms
        self.in_flight = None
        self.failures = 0

    def synced(self, sent: int, now: int) -> None:
        """The SyncGroup that was sent then was answered: at that time, or later, the group did not
        rebalance.

        The session is as old as it was, since SyncGroup does not renew that of a member of a stable
        group. So the next heartbeat goes out at once; what is in flight from before says nothing of
        the group as it is now.
        """
        self.included_at = max(self.included_at, sent)
        self._heard(self._heard_at)
        self.beat_at, self.in_flight = now, None

    def _heard(self, at: int) -> None:
        self._heard_at = at
        self.alive_until = min(at + self._timeout_ms, self.rejoin_by)

    def join_sent(self, now: int) -> None:
        """A JoinGroup is on its way."""
        self._join_sent, self._included_before_join = now, self.included_at

    def join_broke(self) -> None:
        """Its connection broke: what was taken for granted since it was sent is not, for it may
        never have arrived.
        """
        self.included_at = self._included_before_join
        if self.alive_until is not None:
            self._heard(self._heard_at)

    def sent(self, number: int, now: int) -> None:
        """A heartbeat is on its way."""
        self._due = now if self.beat_at is None else self.beat_at
        self.in_flight, self._sent, self.beat_at = number, now, None

    def responded(self, now: int, *, included: bool) -> None:
        """The member is alive: since it sent what was answered, and not only since now."""
        if included:
            self.included_at = self._sent
        self._heard(self._sent)
        # Not from when it was sent: members that synced together shall hear of a rebalance
        # together, and the first of them waits for the last. What each beat is late by would add
        # up.
        self.beat_at = max(self._due + self._interval_ms, now)
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
