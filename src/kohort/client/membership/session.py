"""The member's view of its session: due heartbeats, and when the session may expire.

`Tries` counts consecutive failures, and `backoff_ms` is the pause after them. Time is an argument.
"""

from typing import Final, Protocol

MIN_BACKOFF_MS: Final = 100
JITTER: Final = 0.2


class Uniform(Protocol):
    """The signature of `random.uniform`: a number between `a` and `b`."""

    def __call__(self, a: float, b: float, /) -> float: ...


class MembershipSession:
    """Heartbeats of one member, in ms; at most one is in flight.

    A coordinator removes a member for two reasons: it received no request for the session timeout,
    or the group rebalances and the member has not joined within the rebalance timeout. A member
    that cannot be reached learns of neither. So the time limit starts when the member was last
    *included*: it then sent a heartbeat whose response says that the group does not rebalance, or
    that the rebalance has this member's JoinGroup. A later REBALANCE_IN_PROGRESS proves that the
    session continues, not that the rebalance still waits.
    """

    def __init__(self, *, interval_ms: int, timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self.alive_until: int | None = None
        """From this time on the coordinator may remove the member; None: there is no session."""
        self.heartbeat_at: int | None = None
        """When the next heartbeat is due; None: none is due, or one is in flight."""
        self.in_flight: int | None = None
        """Number of the heartbeat in flight."""
        self.failures = 0
        """Failed heartbeats since the last response."""
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._sent = self._due_at = 0
        self._join_sent = 0
        self._included_before_join = 0
        self._confirmed_at = 0
        self.included_at = 0
        """Latest time at which the group certainly did not wait for this member."""

    @property
    def rejoin_by(self) -> int:
        """Earliest time at which a rebalance may complete without this member."""
        return self.included_at + self._rebalance_timeout_ms

    @property
    def waits_for_session(self) -> bool:
        """True if `alive_until` is the end of the session, False if it is that of a rebalance."""
        return self._confirmed_at + self._timeout_ms <= self.rejoin_by

    @property
    def was_sent_after_join(self) -> bool:
        """Whether the last heartbeat was sent later than the last JoinGroup.

        The JoinGroup has then most likely arrived as well, on its own connection.
        """
        return self._sent > self._join_sent

    def begin(self, now: int, *, owns_partitions: bool) -> None:
        """A JoinGroup response arrived; heartbeats of the older generation no longer count.

        The time at which the coordinator wrote the response is unknown. A member that owns
        partitions keeps its session unchanged. For a member without partitions the session starts
        one heartbeat interval ago.
        """
        if not owns_partitions:
            self.included_at = now - self._interval_ms
            self._confirm(self.included_at)
        self.heartbeat_at = now + self._interval_ms
        self.in_flight = None
        self.failures = 0

    def synced(self, sent: int, now: int) -> None:
        """The SyncGroup that was sent at `sent` succeeded: the group did not rebalance then.

        The session is as old as before: SyncGroup does not renew the session of a member of a
        stable group. So the next heartbeat is due at once. A heartbeat in flight from before says
        nothing about the new generation.
        """
        self.included_at = max(self.included_at, sent)
        self._confirm(self._confirmed_at)
        self.heartbeat_at, self.in_flight = now, None

    def _confirm(self, confirmed_at: int) -> None:
        self._confirmed_at = confirmed_at
        self.alive_until = min(confirmed_at + self._timeout_ms, self.rejoin_by)

    def join_sent(self, now: int) -> None:
        """A JoinGroup was sent."""
        self._join_sent, self._included_before_join = now, self.included_at

    def join_failed(self) -> None:
        """The JoinGroup's connection closed: the request may not have arrived."""
        self.included_at = self._included_before_join
        if self.alive_until is not None:
            self._confirm(self._confirmed_at)

    def sent(self, number: int, now: int) -> None:
        """A heartbeat was sent."""
        self._due_at = now if self.heartbeat_at is None else self.heartbeat_at
        self.in_flight, self._sent, self.heartbeat_at = number, now, None

    def responded(self, now: int, *, included: bool) -> None:
        """The coordinator had the member when the heartbeat of this response was sent."""
        if included:
            self.included_at = self._sent
        self._confirm(self._sent)
        # The interval starts when the heartbeat was due, not when it was sent: members that synced
        # together learn of a rebalance together, as the first of them waits for the last. Delays
        # would add up.
        self.heartbeat_at = max(self._due_at + self._interval_ms, now)
        self.failures = 0

    def failed(self, now: int, pause_ms: int) -> int:
        """A heartbeat failed: the next one is due sooner. Returns the remaining ms of the
        session."""
        self.failures += 1
        self.heartbeat_at = now + min(pause_ms, self._interval_ms)
        return (self.alive_until or now) - now

    def wait(self, now: int) -> None:
        """Make the next heartbeat due after the usual interval."""
        self.heartbeat_at = now + self._interval_ms

    def pause(self) -> None:
        """Send no heartbeats for now: a parked JoinGroup keeps the session alive."""
        self.heartbeat_at = None

    def end(self) -> None:
        """End the session."""
        self.alive_until = self.heartbeat_at = self.in_flight = None


class Tries:
    """Number of consecutive failures, and the time of the first one."""

    def __init__(self) -> None:
        self.failures = 0
        self.reports = 0
        """Number of events that reported the failures."""
        self._since: int | None = None

    def failed(self, now: int) -> int:
        """Count a failure. Returns the ms since the first one."""
        self.failures += 1
        self._since = now if self._since is None else self._since
        return now - self._since

    def succeeded(self) -> None:
        """Reset the count."""
        self.failures, self.reports, self._since = 0, 0, None


def backoff_ms(failures: int, max_ms: int, uniform: Uniform) -> int:
    """Pause that doubles with each failure, with jitter (KIP-580)."""
    pause = min(MIN_BACKOFF_MS << min(max(failures - 1, 0), 16), max(max_ms, 1))
    return max(1, round(pause * uniform(1 - JITTER, 1 + JITTER)))
