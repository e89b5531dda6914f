"""Simulated sockets of a listener: as far as `kohort.server.net.Listener` uses them."""

import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kohort.testing.simulation.transport import SimulatedTransport

DESCRIPTOR: Final = 0
"""Number of every simulated descriptor."""


class AcceptedSocket:
    """The server's end of a connection, before it has a protocol."""

    family = socket.AF_INET

    def __init__(self, transport: SimulatedTransport) -> None:
        self._transport = transport

    def attach(self, protocol: Any) -> SimulatedTransport:
        """The transport, which begins to pass bytes to `protocol`."""
        self._transport.attach(protocol)
        return self._transport

    def setblocking(self, flag: bool) -> None:
        """Nothing blocks."""

    def setsockopt(self, *option: int) -> None:
        """There are no options."""

    def fileno(self) -> int:
        return DESCRIPTOR

    def close(self) -> None:
        self._transport.abort()


class ListeningSocket:
    """Queue of the connections to an address."""

    def __init__(self, address: tuple[str, int], on_close: Callable[[], object]) -> None:
        self._address = address
        self._on_close = on_close
        self._waiting: deque[tuple[SimulatedTransport, tuple[str, int]]] = deque()
        self._notify: Callable[[], object] | None = None

    def add(self, transport: SimulatedTransport, address: tuple[str, int]) -> None:
        """Queue a connection from `address`."""
        self._waiting.append((transport, address))
        if self._notify is not None:
            self._notify()

    def set_reader(self, notify: Callable[[], object] | None) -> bool:
        """Call `notify` when there is a connection to accept; returns whether one was called."""
        had_one = self._notify is not None
        self._notify = notify
        if notify is not None and self._waiting:
            notify()
        return had_one

    def accept(self) -> tuple[AcceptedSocket, tuple[str, int]]:
        """Raises BlockingIOError if no connection waits."""
        if not self._waiting:
            raise BlockingIOError
        transport, address = self._waiting.popleft()
        return AcceptedSocket(transport), address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        return DESCRIPTOR

    def close(self) -> None:
        for transport, _ in self._waiting:
            transport.abort()
        self._waiting.clear()
        self._on_close()
