"""Fires due timers on the event loop, after the requests that arrived before them."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from time import perf_counter
from typing import Final, Generic, TypeVar

from kohort.runtime.clock import Clock
from kohort.runtime.timers import TimerHeap
from kohort.types import Instant

K = TypeVar("K", bound=Hashable)

_TICK_S: Final = 0.001
MAX_DELAY_MS: Final = 20
"""The longest delay of a due timer while requests keep coming."""
_MAX_FIRED: Final = 200
"""Maximum number of timers that fire in one turn of the loop."""
_MAX_FIRING_S: Final = 0.01
"""Time in a turn after which the remaining timers wait for the next turn."""


class TimerDriver(Generic[K]):
    """Timers on the running event loop; a due timer waits for requests that have already arrived.

    asyncio runs due timers before it reads sockets. After a pause (the process was stopped, swapped
    out, or busy with one large turn) timers that fired at once would expire members whose
    heartbeats are unread in the socket buffers. A first rebalance without a delay would end between
    the two requests of a join. In Kafka a fired timer is queued behind requests. This driver
    waits for a turn of the loop without a request.
    """

    def __init__(self, clock: Clock, fire: Callable[[K], None]) -> None:
        self.had_request = False
        """The owner sets it with every request."""
        self._clock = clock
        self._fire_one = fire
        self._timers: TimerHeap[K] = TimerHeap()
        self._handle: asyncio.TimerHandle | None = None
        self._scheduled_at: Instant | None = None
        self._deferring_since: Instant | None = None
        self._firing_at: Instant | None = None

    def __len__(self) -> int:
        """Number of timers that are set."""
        return len(self._timers)

    def deadlines(self) -> Iterator[tuple[K, Instant]]:
        """All timers, in no order."""
        return self._timers.deadlines()

    def set(self, key: K, deadline: Instant) -> None:
        """Set or move a timer. A timer that is set while others fire waits for the next turn."""
        if self._firing_at is not None:
            deadline = max(deadline, Instant(self._firing_at + 1))
        self._timers.set(key, deadline)
        if self._scheduled_at is None or deadline < self._scheduled_at:
            self._arm()

    def cancel(self, key: K) -> None:
        """Cancel a timer, if it is set."""
        self._timers.cancel(key)

    def close(self) -> None:
        """Fire no more timers."""
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self) -> None:
        deadline = self._timers.next_deadline()
        if deadline is not None and (self._scheduled_at is None or deadline < self._scheduled_at):
            # A wakeup that is too early, because its timer was cancelled or moved, is
            # scheduled again.
            self._fire_after(max(deadline - self._clock.now(), 0) / 1_000, deadline)

    def _fire_after(self, seconds: float, deadline: Instant) -> None:
        self.close()
        self._scheduled_at = deadline
        self._handle = asyncio.get_running_loop().call_later(seconds, self._fire)

    def _fire(self) -> None:
        now, deadline = self._clock.now(), self._timers.next_deadline()
        if deadline is not None and deadline <= now and self._defers(now):
            self._fire_after(_TICK_S, deadline)
            return
        self._firing_at = now
        give_way_at = perf_counter() + _MAX_FIRING_S
        for key in islice(self._timers.due(now), _MAX_FIRED):
            self._fire_one(key)
            if perf_counter() > give_way_at:
                break
        self._scheduled_at = self._firing_at = None
        deadline = self._timers.next_deadline()
        if deadline is None or deadline > now:  # else the due timers have waited for requests, too
            self._deferring_since = None
        self._arm()

    def _defers(self, now: Instant) -> bool:
        """Whether due timers must wait for another turn of the loop."""
        if self._deferring_since is None:
            self._deferring_since = now
        elif not self.had_request or now - self._deferring_since >= MAX_DELAY_MS:
            return False
        self.had_request = False
        return True
