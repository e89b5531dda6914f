"""One listener: accepts the connections of its sockets as far as the limits allow.

Sockets are accepted here and not by the loop, because Kafka's limits make clients wait: beyond
`max.connections` and `max.connection.creation.rate` nothing is accepted, so that connections queue
in the system. A connection beyond `max.connections.per.ip` is accepted and closed, and one beyond
the quota `connection_creation_rate` of its address is closed after a wait.

*Handshakes.* At most `HANDSHAKES` TLS handshakes are in progress, and few of them begin in one
turn: each takes up to a millisecond (RSA), for which other connections wait. When there are too
many, the oldest one is given up once it has had `HANDSHAKE_SHARE_S`; silent clients so cannot keep
others out.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from kohort.security import ANONYMOUS, Endpoint, KafkaPrincipal
from kohort.server.net.connection import Connection, Identify, SharedByConnections, host_of
from kohort.server.net.creation_rate import AddressRates, CreationRate
from kohort.server.net.login import Sasl
from kohort.server.net.open_connections import OpenConnections
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.tls_protocol import BUFFER_BYTES, TlsProtocol
from kohort.server.tls import handshaking

ACCEPTED_PER_TURN: Final = 64
HANDSHAKES_PER_TURN: Final = 8
HANDSHAKES: Final = 512
HANDSHAKE_SHARE_S: Final = 1.0
TURNS_TO_END: Final = 4
"""Turns in which the loop may see that an address, whose connections are too many, closed one."""
MAX_DELAYED: Final = 1_000
"""Connections beyond a quota that wait to be closed; further ones are closed at once."""
SHUTDOWN_TIMEOUT_S: Final = 5.0
"""Time that a client has to confirm the end of a TLS connection."""
OUT_OF_FILES_INTERVAL_S: Final = 1.0
"""Pause when the system has no file descriptor for a connection."""


class Tls(Protocol):
    """Encryption of a listener."""

    context: ssl.SSLContext
    """Context of new connections; replaced when certificates are reloaded."""
    handshake_timeout_s: float


def anonymous(_: asyncio.BaseTransport) -> KafkaPrincipal:
    """The principal of a client on a listener without authentication."""
    return ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Encryption of a listener, and authentication of its clients."""

    tls: Tls | None = None
    identify: Identify = anonymous
    sasl: Sasl | None = None


class Listener:
    """Accepts connections from `serve` to `close`."""

    def __init__(
        self,
        endpoint: Endpoint,
        sockets: list[socket.socket],
        protection: Protection,
        connections: OpenConnections,
        rates: tuple[CreationRate, ...],
        log: RateLimitedLog,
    ) -> None:
        self.endpoint = endpoint
        self.sockets = sockets
        self.protection = protection
        self._connections = connections
        self._rates = rates
        self._log = log
        self._shared: SharedByConnections | None = None
        self._opening: dict[asyncio.Task[None], float] = {}  # when it began; oldest first
        self._addresses: AddressRates | None = None
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}  # to be closed
        self._accepts = False
        self._timer: asyncio.TimerHandle | None = None
        self._accepted_per_turn = (
            ACCEPTED_PER_TURN if protection.tls is None else HANDSHAKES_PER_TURN
        )
        self._tls_buffer = memoryview(bytearray(0 if protection.tls is None else BUFFER_BYTES))

    def __repr__(self) -> str:
        return f"<Listener {self.endpoint.listener} {len(self._opening)} handshakes>"

    def serve(self, shared: SharedByConnections, addresses: AddressRates) -> None:
        """Accept connections, which use `shared` together, at the rates of their addresses."""
        self._shared = shared
        self._addresses = addresses
        self.accept_or_wait()

    async def close(self) -> None:
        """Accept no more, and give up handshakes in progress. Idempotent."""
        self._shared = None
        self._set_accepting(False)
        if self._timer is not None:
            self._timer.cancel()
        for accepted in tuple(self._delayed):
            self._close_delayed(accepted)
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def accept_or_wait(self) -> None:
        """Accept if the limits allow it by now, else when they do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay = self._delay()
        self._set_accepting(delay == 0)
        if delay:
            self._timer = asyncio.get_running_loop().call_later(delay, self.accept_or_wait)

    def _delay(self) -> float | None:
        """Seconds until a connection may be accepted; None: when another one has ended."""
        if self._shared is None or not self._connections.has_room(self.endpoint):
            return None
        now = asyncio.get_running_loop().time()
        if len(self._opening) >= HANDSHAKES:
            oldest, began = next(iter(self._opening.items()))
            if now - began < HANDSHAKE_SHARE_S:
                return began + HANDSHAKE_SHARE_S - now
            del self._opening[oldest]
            oldest.cancel()
        return max((rate.delay(now) for rate in self._rates), default=0)

    def _set_accepting(self, accepts: bool) -> None:
        if accepts is self._accepts:
            return
        self._accepts = accepts
        loop = asyncio.get_running_loop()
        for listening in self.sockets:
            if accepts:
                loop.add_reader(listening, self._accept, listening)
            else:
                loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._accepted_per_turn):
            if self._delay() != 0:
                break
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                self._pause(error)
                return
            for rate in self._rates:
                rate.take()
            accepted.setblocking(False)
            wait = self._wait(address)
            if wait:
                self._connections.refuse(host_of(address), "connection_creation_rate is reached")
                self._close_later(accepted, wait)
            else:
                self._open(accepted, host_of(address))
        self.accept_or_wait()

    def _pause(self, error: OSError) -> None:
        self._log.log(logging.ERROR, "cannot accept a connection: %s", error)
        self._set_accepting(False)
        self._timer = asyncio.get_running_loop().call_later(
            OUT_OF_FILES_INTERVAL_S, self.accept_or_wait
        )

    def _open(self, accepted: socket.socket, host: str, turns: int = TURNS_TO_END) -> None:
        loop = asyncio.get_running_loop()
        if turns and self._connections.is_full_of(host):
            loop.call_soon(self._open, accepted, host, turns - 1)
            return
        connection = self.new_connection(host, accepted)
        if connection is None:
            accepted.close()
            return
        task = loop.create_task(self._connect(connection, accepted))
        self._opening[task] = loop.time()
        task.add_done_callback(partial(self._opened, connection))

    def _wait(self, address: Any) -> float:
        """Seconds until a connection beyond the quota of its address is closed; 0: it has room."""
        if self._addresses is None or not isinstance(address, tuple):
            return 0.0
        host = address[0].partition("%")[0]
        return self._addresses.wait(host, asyncio.get_running_loop().time())

    def _close_later(self, accepted: socket.socket, wait: float) -> None:
        if len(self._delayed) >= MAX_DELAYED or not self._connections.leaves_files(
            accepted.fileno()
        ):
            accepted.close()
            return
        timer = asyncio.get_running_loop().call_later(wait, self._close_delayed, accepted)
        self._delayed[accepted] = timer

    def _close_delayed(self, accepted: socket.socket) -> None:
        self._delayed.pop(accepted).cancel()
        accepted.close()

    def new_connection(self, host: str, accepted: socket.socket) -> Connection | None:
        """The protocol of a connection that was accepted, None if a limit refuses it."""
        if self._shared is None:  # it was closed meanwhile
            return None
        connection = Connection(self._shared, host, accepted)
        return connection if self._connections.admit(connection) else None

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connect: Callable[..., object] = asyncio.get_running_loop().connect_accepted_socket
        tls = self.protection.tls
        if tls is None:
            await connect(lambda: connection, accepted)  # type: ignore[misc]
            return
        handshaking.set(accepted)
        await connect(  # type: ignore[misc]
            lambda: TlsProtocol(connection, self._tls_buffer),
            accepted,
            ssl=tls.context,
            ssl_handshake_timeout=tls.handshake_timeout_s,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )

    def _opened(self, connection: Connection, task: "asyncio.Task[None]") -> None:
        was_full = len(self._opening) >= HANDSHAKES
        self._opening.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._connections.forget(connection)
            why = "it took too long" if error is None else _why(error)
            host = connection.peer.host
            self._log.log(logging.INFO, "TLS handshake with %s failed: %s", host, why)
        if error is not None:
            # asyncio's frames refer to the future that has the error, until Python 3.11.8.
            error.with_traceback(None)
        if was_full:
            self.accept_or_wait()


def _why(error: BaseException) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__
