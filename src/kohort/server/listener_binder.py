"""Binds the listeners of a server, each with the TLS and SASL that its settings ask for."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.runtime.clock import Clock
from kohort.security import KafkaPrincipal
from kohort.security.peer import NODE_LISTENER
from kohort.security.scram import ScramUsers
from kohort.server.addresses import Address, cannot_listen
from kohort.server.config import Config, ListenerConfig
from kohort.server.net import Listeners, Protection, Sasl, certificate_of
from kohort.server.tls import Certificates

if TYPE_CHECKING:
    from kohort.server.sasl import SaslListeners
    from kohort.server.tls import ListenerTls


class ListenerBinder:
    """Adds listening sockets to `listeners`, which closes them."""

    def __init__(
        self,
        config: Config,
        listeners: Listeners,
        certificates: Certificates,
        users: Callable[[], ScramUsers],
        clock: Clock,
        opened: AsyncExitStack,
    ) -> None:
        """`users` returns the current SCRAM users. The SASL of listeners is closed by `opened`."""
        self._config = config
        self._listeners = listeners
        self._certificates = certificates
        self._users = users
        self._clock = clock
        self._opened = opened
        self._sasl: SaslListeners | None = None

    async def bind_listeners(self) -> dict[str, Address]:
        """Bind all of `listeners`; the bound addresses by name. Raises KohortError."""
        return {
            listener.name: await self._bind_listener(listener)
            for listener in self._config.listeners
        }

    def bind_paths(self, node_socket: str | None) -> None:
        """Bind `local.socket`, and the Unix socket for other nodes.

        Raises KohortError for the first one, OSError for the other.
        """
        path = self._config["local.socket"]
        if path is not None:
            try:
                self._listeners.bind_path(path)
            except OSError as error:
                raise KohortError(
                    f"local.socket: {path} cannot be used: {error.strerror or error}"
                ) from error
        if node_socket is not None:
            self._listeners.bind_path(node_socket, NODE_LISTENER)

    async def _bind_listener(self, listener: ListenerConfig) -> Address:
        protection = await self._protection(listener)
        try:
            return await self._listeners.bind(listener, protection)
        except OSError as error:
            raise KohortError(cannot_listen(listener.address, error, "--listen")) from error

    async def _protection(self, listener: ListenerConfig) -> Protection:
        protection = Protection()
        if listener.security_protocol.has_tls:
            tls = self._certificates.open(listener)
            protection = Protection(tls=tls, identify=partial(_owner_of_certificate, tls))
        if listener.security_protocol.has_sasl:
            protection = Protection(tls=protection.tls, sasl=await self._open_sasl(listener))
        return protection

    async def _open_sasl(self, listener: ListenerConfig) -> Sasl:
        if self._sasl is None:
            from kohort.server.sasl import SaslListeners  # few servers need it

            self._sasl = SaslListeners(self._config, self._users, self._clock)
            self._opened.push_async_callback(self._sasl.close)
        return await self._sasl.open(listener.name)


def _owner_of_certificate(tls: "ListenerTls", transport: asyncio.BaseTransport) -> KafkaPrincipal:
    return tls.principal(certificate_of(transport))
