"""All listeners of a server, whose connections share limits, memory and counters."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import ALL_APIS
from kohort.security import Endpoint, KafkaPrincipal, SecurityProtocol
from kohort.server.addresses import Address
from kohort.server.config import ListenerConfig
from kohort.server.net.connection import Dispatch, SharedByConnections
from kohort.server.net.connection_limits import UNLIMITED, ConnectionLimits
from kohort.server.net.creation_rate import AddressRates, CreationRate
from kohort.server.net.listener import Listener, Protection
from kohort.server.net.open_connections import OpenConnections
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.request_memory import RequestMemory
from kohort.server.net.request_metrics import RequestMetrics
from kohort.server.net.response_memory import ResponseMemory
from kohort.server.net.sockets import Listen, close_all, listen_on, listen_on_path, local_principal
from kohort.server.throttling import Throttling

LOCAL_LISTENER: Final = "LOCAL"
"""Name of the listener on a Unix socket."""

UNPROTECTED: Final = Protection()
"""No encryption and no names."""

logger = logging.getLogger("kohort.connections")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatistics:
    """Figures since the start; only `connections` and `memory_bytes` go down."""

    connections: int
    accepted: int
    refused: int
    """Connections beyond `max.connections.per.ip`, a quota or the number of descriptors."""
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
    logins: int
    """Authentications by SASL that succeeded."""
    logins_failed: int
    sessions_expired: int
    """Connections closed because their SASL session had ended."""
    memory_bytes: int
    """Memory that large requests hold now."""
    unread_bytes: int
    """Bytes of large responses that clients have not read."""


class Listeners:
    """Listens from `bind`, and accepts connections from `serve` to `close`."""

    def __init__(self, limits: ConnectionLimits | None = None, listen: Listen = listen_on) -> None:
        """`listen` opens the sockets of addresses."""
        self._listen = listen
        self._limits = ConnectionLimits() if limits is None else limits
        self._log = RateLimitedLog(logger)
        self._connections = OpenConnections(self._limits, self._log)
        self._connections.on_room = self._accept_or_wait
        self._memory = RequestMemory(self._limits.queued_bytes)
        self._unread = ResponseMemory(self._limits.response_bytes)
        self.listeners: list[Listener] = []
        self._rates: dict[str | None, CreationRate] = {}
        self.metrics = RequestMetrics()

    def limit(self, limits: ConnectionLimits) -> None:
        """Admit connections by other limits from now on; those of requests stay."""
        self._limits = limits
        self._connections.limit(limits)
        for name, rate in self._rates.items():
            rate.limit(self._creation_rate(name))
        self._accept_or_wait()

    async def bind(self, config: ListenerConfig, protection: Protection = UNPROTECTED) -> Address:
        """Listen on an address and return it. Raises OSError."""
        address, sockets = await self._listen(config.address)
        advertised = address if config.advertised == config.address else config.advertised
        endpoint = Endpoint(
            listener=config.name,
            security_protocol=config.security_protocol,
            host=advertised.host,
            port=advertised.port or address.port,
        )
        rates: tuple[CreationRate, ...] = (self._rate(config.name),)
        if config.name != self._limits.for_nodes:
            rates = (self._rate(None), *rates)
        self._add(endpoint, sockets, protection, rates)
        return address

    def bind_path(self, path: str, name: str = LOCAL_LISTENER) -> None:
        """Listen on a Unix socket, whose connections no limit holds up. Raises OSError."""
        endpoint = Endpoint(
            listener=name,
            security_protocol=SecurityProtocol.PLAINTEXT,
            host=f"unix:{path}",
            port=0,
        )
        self._add(endpoint, [listen_on_path(path)], Protection(identify=local_user), ())

    def _add(
        self,
        endpoint: Endpoint,
        sockets: list[socket.socket],
        protection: Protection,
        rates: tuple[CreationRate, ...],
    ) -> None:
        self.listeners.append(
            Listener(endpoint, sockets, protection, self._connections, rates, self._log)
        )

    def acls_changed(self) -> None:
        """Have requests that come again authorized again."""
        self._connections.clear_cached_request()

    def serve(self, dispatch: Dispatch, throttling: Throttling) -> None:
        """Accept connections, dispatch their requests, and have clients wait as quotas say."""
        addresses = AddressRates(throttling.table.connection_rate)
        for listener in self.listeners:
            listener.serve(
                SharedByConnections(
                    dispatch=dispatch,
                    connections=self._connections,
                    memory=self._memory,
                    unread=self._unread,
                    metrics=self.metrics,
                    throttling=throttling,
                    log=self._log,
                    request_bytes=self._limits.request_bytes,
                    endpoint=listener.endpoint,
                    identify=listener.protection.identify,
                    sasl=listener.protection.sasl,
                ),
                addresses,
            )
        self._connections.start()

    async def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, respond to requests in progress for up to `deadline_s`, close the rest.

        Requests that wait for others (a parked join or sync, a Fetch that waits for data) are cut
        at once. Idempotent.
        """
        for listener in self.listeners:
            await listener.close()
            close_all(listener.sockets)
        await self._connections.close(deadline_s)

    def statistics(self) -> ListenerStatistics:
        """The figures by now."""
        metrics = self.metrics
        return ListenerStatistics(
            connections=len(self._connections),
            accepted=self._connections.accepted,
            refused=self._connections.refused,
            requests={ALL_APIS[key].name: count for key, count in metrics.requests.items()},
            errors={
                (ALL_APIS[key].name, ErrorCode(code).name.upper()): count
                for (key, code), count in metrics.errors.items()
            },
            bytes_in=metrics.bytes_in,
            bytes_out=metrics.bytes_out,
            malformed=metrics.malformed,
            hung_up=metrics.hung_up,
            failed=metrics.failed,
            throttled={ALL_APIS[key].name: count for key, count in metrics.throttled.items()},
            logins=metrics.logins,
            logins_failed=metrics.logins_failed,
            sessions_expired=metrics.sessions_expired,
            memory_bytes=self._memory.used,
            unread_bytes=self._unread.used,
        )

    def _accept_or_wait(self) -> None:
        for listener in self.listeners:
            listener.accept_or_wait()

    def _rate(self, name: str | None) -> CreationRate:
        if name not in self._rates:
            now = asyncio.get_running_loop().time()
            self._rates[name] = CreationRate(self._creation_rate(name), now)
        return self._rates[name]

    def _creation_rate(self, name: str | None) -> int:
        if name is None:
            return self._limits.creation_rate
        return self._limits.creation_rate_of.get(name, UNLIMITED)


def local_user(transport: asyncio.BaseTransport) -> KafkaPrincipal:
    """The user at the other end of a Unix socket."""
    return local_principal(transport.get_extra_info("socket"))


def certificate_of(transport: asyncio.BaseTransport) -> bytes | None:
    """The client's certificate in DER, None if it showed none."""
    encryption: ssl.SSLObject | Any = transport.get_extra_info("ssl_object")
    certificate: bytes | None = encryption.getpeercert(binary_form=True)
    return certificate
