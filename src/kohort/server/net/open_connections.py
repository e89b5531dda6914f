"""The open connections of a server: which it admits, and which were idle for too long."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint
from typing import Final, Protocol

from kohort.security import Endpoint, Peer
from kohort.server.net.connection_limits import ConnectionLimits
from kohort.server.net.file_descriptors import first_reserved
from kohort.server.net.rate_limited_log import RateLimitedLog

TICKS_PER_IDLE_TIME: Final = 20
"""An idle connection is closed at most this fraction of `connections.max.idle.ms` late."""
_CHECKED_PER_TURN: Final = 5_000
_CLOSED_PER_TURN: Final = 100
"""Idle connections that are closed in one turn of the loop, in some milliseconds."""


class OpenConnection(Protocol):
    """A connection as the registry of them uses it."""

    descriptor: int
    """File descriptor of its socket."""
    last_active: int
    """Tick of its last request or response."""

    @property
    def peer(self) -> Peer:
        """The client of the connection."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        ...

    def clear_cached_request(self) -> None:
        """Parse the next request, even if it repeats the last one."""
        ...

    def close_with_reason(self, why: str) -> None:
        """Close, and log `why`."""
        ...

    def drain(self) -> None:
        """Take no further request, and close after the one in progress."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


def _no_op() -> None:
    pass


class OpenConnections:
    """Registry of the open connections of all listeners."""

    def __init__(self, limits: ConnectionLimits, log: RateLimitedLog) -> None:
        self.accepted = 0
        self.refused = 0
        """Connections beyond `max.connections.per.ip`, a quota or the number of descriptors."""
        self.ticks = 0
        """Counts up `TICKS_PER_IDLE_TIME` times in `connections.max.idle.ms`."""
        self._limits = limits
        self._log = log
        self._open: set[OpenConnection] = set()
        self._limited: Counter[str] = Counter()  # by listener, without those of a Unix socket
        self._per_ip: Counter[str] = Counter()
        self.on_room: Callable[[], None] = _no_op
        """Called when a connection has ended."""
        self._empty = asyncio.Event()
        self._ticker: asyncio.TimerHandle | None = None
        self._closing = False
        self._first_reserved = first_reserved()

    def __len__(self) -> int:
        return len(self._open)

    def limit(self, limits: ConnectionLimits) -> None:
        """Admit connections by other limits from now on."""
        self._limits = limits

    def start(self) -> None:
        """Begin to close idle connections, if the limits say so."""
        if self._limits.idle_ms > 0:
            self._tick()

    def has_room(self, endpoint: Endpoint) -> bool:
        """Whether `max.connections` allows a listener one more connection."""
        if endpoint.port == 0:  # a Unix socket
            return True
        limits, name = self._limits, endpoint.listener
        own = limits.connections_of.get(name)
        if own is not None and self._limited[name] >= own:
            return False
        return name == limits.for_nodes or self._limited.total() < limits.connections

    def is_full_of(self, host: str) -> bool:
        """Whether `max.connections.per.ip` allows an address no further connection."""
        return bool(host) and self._per_ip[host] >= self._of_ip(host)

    def _of_ip(self, host: str) -> int:
        return self._limits.connections_per_ip_of.get(host, self._limits.connections_per_ip)

    def admit(self, connection: OpenConnection) -> bool:
        """Whether one more connection from its host is accepted; if so, it is registered."""
        host = connection.peer.host
        if self._closing:
            return False
        if self.is_full_of(host):
            self.refuse(host, f"max.connections.per.ip={self._of_ip(host)} is reached")
            return False
        if not self.leaves_files(connection.descriptor):
            limit = self._first_reserved
            self.refuse(host, f"the number of file descriptors={limit} is reached")
            return False
        self.accepted += 1
        self._open.add(connection)
        if host:
            self._per_ip[host] += 1
            self._limited[connection.peer.endpoint.listener] += 1
        return True

    def leaves_files(self, descriptor: int) -> bool:
        """Whether a connection with this descriptor leaves enough of them for files."""
        return descriptor < self._first_reserved

    def refuse(self, host: str, why: str) -> None:
        """Count and log a connection that is not accepted."""
        self.refused += 1
        self._log.log(logging.WARNING, "refused a connection from %s: %s", host, why)

    def forget(self, connection: OpenConnection) -> None:
        """Remove a lost connection; harmless if it was not admitted."""
        if connection in self._open:
            self._open.discard(connection)
            host = connection.peer.host
            if host:
                self._limited[connection.peer.endpoint.listener] -= 1
                self._per_ip[host] -= 1
                if not self._per_ip[host]:
                    del self._per_ip[host]
            if not self._open:
                self._empty.set()
            self.on_room()

    def clear_cached_request(self) -> None:
        """Have every connection parse its next request, even if it repeats the last one."""
        for connection in self._open:
            connection.clear_cached_request()

    async def close(self, deadline_s: float) -> None:
        """Admit none, drain all connections, and abort what is left at the deadline. Idempotent."""
        self._closing = True
        if self._ticker is not None:
            self._ticker.cancel()
        for connection in tuple(self._open):
            connection.drain()
        try:
            await asyncio.wait_for(self._all_lost(), deadline_s)
        except TimeoutError:
            for connection in tuple(self._open):
                connection.abort()
            await self._all_lost()

    async def _all_lost(self) -> None:
        while self._open:
            self._empty.clear()
            await self._empty.wait()

    def _tick(self) -> None:
        """Close idle connections; ticks are coarse so that activity costs one assignment."""
        self.ticks += 1
        self._close_idle(iter(tuple(self._open)))
        seconds = self._limits.idle_ms / 1000 / TICKS_PER_IDLE_TIME
        self._ticker = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _close_idle(self, unchecked: Iterator[OpenConnection]) -> None:
        """Close those of these that are idle, some in each turn of the loop.

        The clients of a fleet often connect together, and so are idle for too long together.
        """
        closed = 0
        for connection in islice(unchecked, _CHECKED_PER_TURN):
            if connection.is_idle and self.ticks - connection.last_active > TICKS_PER_IDLE_TIME:
                connection.close_with_reason("idle for connections.max.idle.ms")
                closed += 1
                if closed == _CLOSED_PER_TURN:
                    break
        if length_hint(unchecked) and not self._closing:
            asyncio.get_running_loop().call_soon(self._close_idle, unchecked)
