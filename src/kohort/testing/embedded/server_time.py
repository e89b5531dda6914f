"""Time of an embedded server: an event loop whose clock a test can advance.

Every wait of the server is a timer of its event loop: sessions, rebalances, transaction timeouts,
retention, quotas, throttling, the maximum wait of a Fetch. The server's clock (`ServerClock`) reads
the time of that loop. So one number moves all of them.

| mode | the time of the loop |
|---|---|
| running (default) | the machine's monotonic clock, plus what was advanced |
| advancing | stands still, and jumps to the next timer whenever nothing else is to do |
| frozen | stands still, but for waits of at most `CREEP_S` |

While it advances, each due timer fires at its own time, and everything that follows from it is done
before the next jump: callbacks, requests that have arrived, work in other threads.

A frozen server must still respond. It defers work by some milliseconds in places, such as the end
of a join phase without a delay. Such short waits happen, and time creeps on by their length.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any, Final

from kohort.types import Instant, Timestamp

CREEP_S: Final = 0.025
"""Longest wait that happens in frozen time. A server defers due timers by at most 20 ms."""


def _ignore(_: int) -> None:
    pass


class ServerTimeLoop(asyncio.SelectorEventLoop):
    """The event loop of an embedded server. Its methods are called in its own thread."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._stands_at: float | None = None
        self._is_frozen = False
        self._creep_s = CREEP_S
        self._until: float | None = None
        self._stops_at_next_timer = False
        self._arrived: asyncio.Future[None] | None = None
        self._in_threads = 0
        self._one_at_a_time = asyncio.Lock()
        self.on_jump: Callable[[int], None] = _ignore
        """Called after each jump with its length in ms, before timers that became due fire."""
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds of the server's monotonic clock."""
        if self._stands_at is not None:
            return self._stands_at
        return time.monotonic() + self._ahead_s

    @property
    def is_frozen(self) -> bool:
        """Whether the clock stands still until `resume`."""
        return self._is_frozen

    def freeze(self, *, creeps: bool = True) -> None:
        """Stop the clock, until `resume`; with `creeps`, short waits happen nevertheless."""
        self._stands_at, self._is_frozen = self.time(), True
        self._creep_s = CREEP_S if creeps else 0.0

    def resume(self) -> None:
        """Let the clock run again, from where it stands."""
        self._is_frozen = False
        if self._until is None:  # else when it has arrived
            self._run_on()

    def _run_on(self) -> None:
        self._ahead_s = self.time() - time.monotonic()
        self._stands_at = None

    async def advance(self, seconds: float) -> None:
        """Let so much time pass now, and return when all that was due has been done."""
        async with self._one_at_a_time:
            await self._advance_to(self.time() + seconds)

    async def advance_to_next_timer(self, at_most: float) -> None:
        """Advance to the next timer and fire it, but not beyond the time `at_most`."""
        async with self._one_at_a_time:
            self._stops_at_next_timer = True
            try:
                await self._advance_to(at_most)
            finally:
                self._stops_at_next_timer = False

    async def _advance_to(self, until: float) -> None:
        self._stands_at = self.time()
        self._until = max(until, self._stands_at)
        self._arrived = self.create_future()
        try:
            await self._arrived
        finally:
            self._until = self._arrived = None
            if not self._is_frozen:
                self._run_on()

    def run_in_executor(  # type: ignore[override]  # the types are those of asyncio
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        """As in asyncio; time does not jump while the thread works."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self._in_threads -= 1

    def select(self, select: Callable[[float | None], Any], timeout: float | None) -> Any:
        """The events of `select`, waiting for at most `timeout` seconds of the server's time."""
        if self._stands_at is None or (timeout is not None and timeout <= 0):
            return select(timeout)
        if self._until is not None and not self._in_threads:
            events = select(0)
            if not events:
                self._jump(timeout)
            return events
        if timeout is None or timeout > self._creep_s:
            return select(None)
        events = select(timeout)
        if not events:
            self._stands_at += timeout
        return events

    def _jump(self, timeout: float | None) -> None:
        """Move on to the next timer, which is `timeout` seconds away, or arrive."""
        assert self._stands_at is not None
        assert self._until is not None
        before = self._stands_at
        if before >= self._until:
            if self._arrived is not None and not self._arrived.done():
                self._arrived.set_result(None)
            return
        if timeout is None or before + timeout >= self._until:
            self._stands_at = self._until
        else:
            self._stands_at = before + timeout
            if self._stops_at_next_timer:
                self._until = self._stands_at
        self.on_jump(_ms(self._stands_at) - _ms(before))


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: ServerTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        return self._loop.select(super().select, timeout)


class ServerClock:
    """The clocks of a server on a `ServerTimeLoop`: both move with the time of the loop."""

    def __init__(self, loop: ServerTimeLoop) -> None:
        self._loop = loop
        self._epoch_s = time.time() - loop.time()

    def now(self) -> Instant:
        return Instant(_ms(self._loop.time()))

    def timestamp(self) -> Timestamp:
        return Timestamp(_ms(self._loop.time() + self._epoch_s))


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
