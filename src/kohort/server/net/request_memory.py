"""Memory of large requests in progress, over all connections (`queued.max.request.bytes`).

A connection takes the memory of a whole request when it knows its size and before it reads the
rest, so that a request that was begun can always be finished: connections that each hold half of
one can never lock each other out. Requests of up to `UNMETERED` bytes are not counted;
`max.connections` bounds those.
"""

from collections import OrderedDict
from typing import Final, Protocol

UNMETERED: Final = 64 * 1024


class Waiter(Protocol):
    """A connection that waits for the memory of one request; hashed by identity."""

    is_open: bool
    """False: it needs no memory any more."""

    def memory_granted(self, size: int) -> None:
        """`size` bytes that `take` did not have at first are the waiter's now."""
        ...


class RequestMemory:
    """Hands out up to `limit` bytes, first come first served; no limit if it is not positive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: OrderedDict[Waiter, int] = OrderedDict()
        self.used = 0

    def take(self, size: int, waiter: Waiter) -> bool:
        """Whether `size` bytes are the caller's now; if not, they are granted to it later.

        A request larger than the limit gets its memory when no other request holds any.
        """
        if self._waiting or not self._fits(size):
            self._waiting[waiter] = size
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        """Give memory back that was taken or granted."""
        self.used -= size
        self._grant()

    def forget(self, waiter: Waiter) -> None:
        """Remove a connection that is lost. Those that waited behind it may get memory now."""
        if self._waiting.pop(waiter, None) is not None:
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            waiter, size = next(iter(self._waiting.items()))
            if waiter.is_open and not self._fits(size):
                return
            del self._waiting[waiter]
            if waiter.is_open:
                self.used += size
                waiter.memory_granted(size)

    def _fits(self, size: int) -> bool:
        return self._limit <= 0 or self.used == 0 or self.used + size <= self._limit
