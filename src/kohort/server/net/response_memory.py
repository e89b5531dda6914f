"""Memory of responses that their clients have not read, over all connections.

A client that requests and does not read leaves one response in the server. A response of up to
`UNMETERED` bytes is not counted; `max.connections` bounds those. For the rest:

- A Fetch response takes at most a quarter of what is left of `queued.max.response.bytes`, or its
  first batch if that is larger. Readers that never read so take less and less.
- Other responses cannot be cut. Beyond the limit, the connection that has not read for longest is
  closed.
"""

from typing import Final, Protocol

from kohort.server.net.request_memory import UNMETERED

SHARE: Final = 4
"""Part of the memory left that one Fetch response may take: one of this many."""


class SlowReader(Protocol):
    """A connection whose client does not read its responses."""

    def drop(self, why: str) -> None:
        """Close at once, with the responses that were not read."""
        ...


class ResponseMemory:
    """Counts unread responses of all connections, up to `limit` bytes; no limit if not positive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unread: dict[SlowReader, int] = {}  # in the order in which they stopped to read
        self.used = 0

    @property
    def largest(self) -> int | None:
        """Bytes that the next response should have at most, None if there is no limit."""
        return None if self._limit <= 0 else max(0, self._limit - self.used) // SHARE

    def set(self, reader: SlowReader, size: int) -> None:
        """`size` bytes wait for this client now."""
        former_size = self._unread.get(reader, 0)
        if size > UNMETERED:
            self._unread[reader] = size
        elif former_size:
            del self._unread[reader]
            size = 0
        else:
            return
        self.used += size - former_size
        while 0 < self._limit < self.used and len(self._unread) > 1:
            # It is forgotten at once, also if it is `reader`: its connection ends a turn later.
            longest = next(iter(self._unread))
            self.used -= self._unread.pop(longest)
            longest.drop("its client does not read, and queued.max.response.bytes is reached")
