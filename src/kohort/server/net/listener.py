"""Binds an address and accepts connections on it, which share limits, memory and counters."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.security import Endpoint
from kohort.server.net.connection import Connection, Dispatch, SharedByConnections
from kohort.server.net.connection_limits import ConnectionLimits
from kohort.server.net.login import Sasl
from kohort.server.net.open_connections import OpenConnections
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.request_memory import RequestMemory
from kohort.server.net.request_metrics import RequestMetrics
from kohort.server.net.response_memory import ResponseMemory
from kohort.server.throttling import Throttling

BACKLOG: Final = 1024

logger = logging.getLogger("kohort.connections")


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
    """Responses that bear an error, by API name and Kafka's name of the error."""
    bytes_in: int
    bytes_out: int
    malformed: int
    """Connections closed because their bytes were no request."""
    hung_up: int
    """Connections that the server closed, malformed ones included."""
    failed: int
    """Requests whose handler raised."""
    throttled: Mapping[str, int]
    """Responses whose client has to wait because of its quotas, by API name."""
    memory_bytes: int
    """Memory that large requests hold now."""
    unread_bytes: int
    """Bytes of large responses that clients have not read."""


class Listener:
    """Accepts connections from `serve` to `close`."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self._limits = ConnectionLimits() if limits is None else limits
        self._log = RateLimitedLog(logger)
        self._connections = OpenConnections(self._limits, self._log)
        self._memory = RequestMemory(self._limits.queued_bytes)
        self._unread = ResponseMemory(self._limits.response_bytes)
        self._server: asyncio.Server | None = None
        self._shared: SharedByConnections | None = None
        self.metrics = RequestMetrics()

    def limit(self, limits: ConnectionLimits) -> None:
        """Admit connections by other limits from now on; those of requests stay."""
        self._connections.limit(limits)

    def acls_changed(self) -> None:
        """Have requests that come again authorized again."""
        self._connections.expect_nothing_again()

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind an address and return it (port 0: a free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self.new_connection, host, port, backlog=BACKLOG, start_serving=False
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def serve(
        self,
        dispatch: Dispatch,
        endpoint: Endpoint,
        throttling: Throttling,
        sasl: Sasl | None = None,
    ) -> None:
        """Accept connections on the bound address and dispatch their requests. Raises OSError.

        Clients know the address as `endpoint`, wait as `throttling` says, and authenticate by
        `sasl` if there is one.
        """
        assert self._server is not None
        self._shared = SharedByConnections(
            dispatch=dispatch,
            connections=self._connections,
            memory=self._memory,
            unread=self._unread,
            metrics=self.metrics,
            throttling=throttling,
            log=self._log,
            request_bytes=self._limits.request_bytes,
            endpoint=endpoint,
            sasl=sasl,
        )
        await self._server.start_serving()
        self._connections.start()

    def new_connection(self) -> Connection:
        """The protocol of a connection that was accepted."""
        assert self._shared is not None
        return Connection(self._shared)

    async def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, respond to requests in progress for up to `deadline_s`, close the rest.

        Requests that wait for others (a parked join or sync, a Fetch that waits for data) are cut
        at once. Idempotent.
        """
        if self._server is not None:
            self._server.close()
        await self._connections.close(deadline_s)

    def statistics(self) -> ListenerStatistics:
        """The figures by now."""
        metrics = self.metrics
        return ListenerStatistics(
            connections=len(self._connections),
            accepted=self._connections.accepted,
            refused=self._connections.refused,
            requests={APIS[key].name: count for key, count in metrics.requests.items()},
            errors={
                (APIS[key].name, ErrorCode(code).name.upper()): count
                for (key, code), count in metrics.errors.items()
            },
            bytes_in=metrics.bytes_in,
            bytes_out=metrics.bytes_out,
            malformed=metrics.malformed,
            hung_up=metrics.hung_up,
            failed=metrics.failed,
            throttled={APIS[key].name: count for key, count in metrics.throttled.items()},
            memory_bytes=self._memory.used,
            unread_bytes=self._unread.used,
        )
