"""Binds an address, counts its connections, and holds what they share: limits, handlers, figures."""

import asyncio
import importlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.server.net.connection import Connection
from kohort.server.net.exchange import Exchange
from kohort.server.net.rate_limited_log import QuietLog
from kohort.server.net.repeated_requests import Ask
from kohort.server.net.request_memory import RequestMemory

if TYPE_CHECKING:
    from kohort.server.broker import Broker

BACKLOG: Final = 1024
TICKS_PER_IDLE_TIME: Final = 20
"""An idle connection is closed at most this fraction of `connections.max.idle.ms` late."""

ReadRepeated: TypeAlias = "Callable[[Broker, bytes, int], Ask | None]"
"""What a handler module may have in `REPEATED`: (broker, frame, offset of the body) -> what answers
that request.
"""
TakeBytes: TypeAlias = "Callable[[Broker, Exchange, bytes, int], bool]"
"""What a handler module may have in `TAKES_BYTES`: (broker, exchange, frame, offset of the body) ->
whether it took the request; if not, the request is decoded and given to `handle`.
"""
Handle: TypeAlias = "Callable[[Broker, Exchange, Any], Coroutine[Any, Any, None] | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What peers may ask of a listener; Kafka's defaults."""

    connections: int = 2**31 - 1
    connections_per_ip: int = 2**31 - 1
    idle_ms: int = 600_000
    """0 or less: connections may be idle for ever."""
    request_bytes: int = 104_857_600
    queued_bytes: int = -1

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Limits":
        """As configured."""
        return cls(
            connections=config["max.connections"],
            connections_per_ip=config["max.connections.per.ip"],
            idle_ms=config["connections.max.idle.ms"],
            request_bytes=config["socket.request.max.bytes"],
            queued_bytes=config["queued.max.request.bytes"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatistics:
    """Figures since the start; only `connections` and `memory_bytes` go down."""

    connections: int
    accepted: int
    refused: int
    """Connections beyond `max.connections` or `max.connections.per.ip`."""
    requests: Mapping[str, int]
    """By API name."""
    errors: Mapping[tuple[str, str], int]
    """Answers by API name and each error that they bear, by Kafka's name of it."""
    bytes_in: int
    bytes_out: int
    malformed: int
    """Connections closed because of what they sent."""
    hung_up: int
    """Connections that the server closed, those among them."""
    failed: int
    """Requests whose handler raised."""
    memory_bytes: int
    """Memory that large requests hold now."""


class Listener:
    """Accepts connections for a broker, from `start` to `close`."""

    def __init__(self, broker: "Broker", limits: Limits | None = None) -> None:
        self.broker = broker
        self.limits = Limits.of(broker.config) if limits is None else limits
        self.log = QuietLog(logging.getLogger(__name__))
        self.memory = RequestMemory(self.limits.queued_bytes)
        self.requests: Counter[int] = Counter()
        self.errors: Counter[tuple[int, int]] = Counter()
        """Answers by API and each error that they bear."""
        self.bytes_in = self.bytes_out = 0
        self.accepted = self.refused = self.malformed = self.hung_up = self.failed = 0
        self.ticks = 0
        self._connections: set[Connection] = set()
        self._per_ip: Counter[str] = Counter()
        self.repeated: dict[tuple[int, int], ReadRepeated] = {}
        """By API and version: tried before the handler."""
        self.takes_bytes: dict[tuple[int, int], TakeBytes] = {}
        """By API and version: tried before the request is decoded."""
        self._handlers: dict[int, Handle] = {}
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._closing = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; gives the address bound (port 0: a free one). Raises OSError if that is not
        possible.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=BACKLOG
        )
        if self.limits.idle_ms > 0:
            self._tick()
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, let requests in progress be answered within `deadline_s`, close every
        connection.

        Requests that only wait for others (a parked join or sync, a Fetch that waits for data) are
        cut at once. Idempotent.
        """
        self._closing = True
        if self._server is not None:
            self._server.close()
        if self._ticker is not None:
            self._ticker.cancel()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            await asyncio.wait_for(self._all_gone(), deadline_s)
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
            await self._all_gone()

    async def _all_gone(self) -> None:
        while self._connections:
            self._empty.clear()
            await self._empty.wait()

    # What connections call

    def admit(self, connection: Connection) -> bool:
        """Whether one more connection of this peer is taken."""
        host = connection.client_host
        if self._closing:
            return False
        if len(self._connections) >= self.limits.connections:
            return self._refuse(host, "max.connections", self.limits.connections)
        if self._per_ip[host] >= self.limits.connections_per_ip:
            return self._refuse(host, "max.connections.per.ip", self.limits.connections_per_ip)
        self.accepted += 1
        self._connections.add(connection)
        self._per_ip[host] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._per_ip[connection.client_host] -= 1
            if not self._per_ip[connection.client_host]:
                del self._per_ip[connection.client_host]
            if not self._connections:
                self._empty.set()

    def handler(self, api_key: int) -> Handle:
        """The function that handles an API; its module is imported for the first request."""
        handle = self._handlers.get(api_key)
        if handle is None:
            module = importlib.import_module(APIS[api_key].handler)
            handle = self._handlers[api_key] = module.handle
            for version, read in getattr(module, "REPEATED", {}).items():
                self.repeated[api_key, version] = read
            for version, take in getattr(module, "TAKES_BYTES", {}).items():
                self.takes_bytes[api_key, version] = take
        return handle

    def unsupported_version(self, exchange: Exchange) -> None:
        """Answer an ApiVersions request of a version that is not served."""
        from kohort.server.handlers import api_versions

        api_versions.unsupported(exchange)

    def statistics(self) -> ListenerStatistics:
        """The figures by now."""
        return ListenerStatistics(
            connections=len(self._connections),
            accepted=self.accepted,
            refused=self.refused,
            requests={APIS[key].name: count for key, count in self.requests.items()},
            errors={
                (APIS[key].name, ErrorCode(code).name.upper()): count
                for (key, code), count in self.errors.items()
            },
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            malformed=self.malformed,
            hung_up=self.hung_up,
            failed=self.failed,
            memory_bytes=self.memory.used,
        )

    def _refuse(self, host: str, name: str, limit: int) -> bool:
        self.refused += 1
        self.log.log(
            logging.WARNING, "refused a connection from %s: %s=%d is reached", host, name, limit
        )
        return False

    def _tick(self) -> None:
        """Close what was idle for too long. Kafka's ticks are coarse too: activity costs one
        assignment.
        """
        self.ticks += 1
        for connection in tuple(self._connections):
            if connection.is_idle and self.ticks - connection.last_active > TICKS_PER_IDLE_TIME:
                connection.hang_up("idle for connections.max.idle.ms")
        seconds = self.limits.idle_ms / 1000 / TICKS_PER_IDLE_TIME
        self._ticker = asyncio.get_running_loop().call_later(seconds, self._tick)
