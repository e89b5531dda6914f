"""Connections to other nodes by a listener, with its TLS and SASL, as between Kafka's brokers.

The node is a client there: its principal is that of its certificate or of its user. A node that
does not accept it is not tried again for a while: handshakes cost both of them, and failed logins
count against the address.
"""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from kohort.cluster import Endpoint
from kohort.errors import ErrorCode, fresh
from kohort.protocol.apis import API_VERSIONS, BY_NAME
from kohort.security.scram import BY_MECHANISM
from kohort.security.scram_client import ScramClient
from kohort.server.cluster.internode.connection import Connect
from kohort.server.cluster.internode.link import Link, NodeUnreachableError
from kohort.server.config import InterBroker, NodeLogin
from kohort.server.logging import fields
from kohort.server.tls import Certificates

logger = logging.getLogger("kohort.serve")

CONNECT_TIMEOUT_S: Final = 5.0
REFUSAL_BACKOFF_S: Final = 3.0
"""Time before the next attempt after a node has refused the connection."""
RENEWAL_FRACTION: Final = 0.9
"""Fraction of a SASL session after which a new connection is opened; 0.85 to 0.95 in Kafka."""
_HANDSHAKE: Final = BY_NAME["sasl_handshake"].key
_AUTHENTICATE: Final = BY_NAME["sasl_authenticate"].key
_NONCE_BYTES: Final = 24
_SECOND: Final = timedelta(seconds=1)
_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""TLS that ended with its connection, as when a node ends."""


class RefusedError(NodeUnreachableError):
    """The nodes reject each other's TLS or SASL: a retry does not help."""


class ByListener:
    """Connections to other nodes by the inter-broker listener."""

    def __init__(
        self,
        inter_broker: InterBroker,
        certificates: Certificates,
        endpoint_of: Callable[[int, str], Endpoint | None],
    ) -> None:
        """`endpoint_of` returns the current endpoint of a node's listener; None: unknown."""
        self._inter_broker = inter_broker
        self._certificates = certificates
        self._endpoint_of = endpoint_of
        self._routes: dict[int, _Route] = {}

    def connect(self, node_id: int) -> Connect:
        """Function that opens a connection to this node."""
        route = self._routes.get(node_id)
        if route is None:
            route = self._routes[node_id] = _Route(node_id, partial(self._open, node_id))
        return route.open

    async def _open(self, node_id: int) -> Link:
        listener, login, _ = self._inter_broker
        endpoint = self._endpoint_of(node_id, listener.name)
        if endpoint is None:
            raise NodeUnreachableError(f"node {node_id} has no listener {listener.name}")
        context = None
        if listener.security_protocol.has_tls:
            context = self._certificates.of_nodes(listener.name)
        link = Link(*await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context))
        try:
            if login is not None:
                await _log_in(link, login)
            elif context is not None:
                # The node may refuse the certificate after the handshake: this request shows it.
                await link.ask(API_VERSIONS, 0)
        except BaseException as error:
            link.end(f"not accepted: {error}")
            raise
        return link


class _Route:
    """Connection attempts to one node, and the last refusal."""

    def __init__(self, node_id: int, connect: Connect) -> None:
        self._node_id = node_id
        self._connect = connect
        self._refused: RefusedError | None = None
        self._retry_at = 0.0

    async def open(self) -> Link:
        """Open a connection to the node. Raises OSError."""
        if self._refused is not None and asyncio.get_running_loop().time() < self._retry_at:
            raise RefusedError(*self._refused.args)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                link = await self._connect()
        except TimeoutError as error:
            raise NodeUnreachableError(f"no connection in {CONNECT_TIMEOUT_S:.0f} s") from error
        except OSError as error:
            refused = _refusal(error)
            if refused is None:
                raise
            self._note(refused)
            raise fresh(refused) from error
        self._refused = None
        return link

    def _note(self, refused: RefusedError) -> None:
        if self._refused is None or str(self._refused) != str(refused):
            logger.error(
                "cannot connect to another node", extra=fields(other=self._node_id, why=refused)
            )
        self._refused = refused
        self._retry_at = asyncio.get_running_loop().time() + REFUSAL_BACKOFF_S


def _refusal(error: OSError) -> RefusedError | None:
    """The refusal that an error of an attempt stands for; None: it may be transient."""
    cause = error.__cause__ if isinstance(error, NodeUnreachableError) else error
    if isinstance(error, RefusedError):
        return error
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, _ENDED):
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RefusedError(f"its certificate is not accepted: {cause.verify_message}")
    return RefusedError(f"TLS failed: {cause.reason or cause}")


async def _log_in(link: Link, login: NodeLogin) -> None:
    """Authenticate by SASL. Raises RefusedError, NodeUnreachableError."""
    chosen = await link.ask(_HANDSHAKE, 1, mechanism=login.mechanism)
    if chosen.error_code:
        offered = ", ".join(chosen.mechanisms)
        raise RefusedError(f"it does not offer {login.mechanism}, only {offered or 'no SASL'}")
    if login.mechanism in BY_MECHANISM:
        last = await _log_in_by_scram(link, login)
    else:
        last = await _authenticate(link, login, f"\0{login.username}\0{login.password}".encode())
    lifetime_s = last.session_lifetime / _SECOND
    if lifetime_s:
        link.expire_in(RENEWAL_FRACTION * lifetime_s)


async def _log_in_by_scram(link: Link, login: NodeLogin) -> Any:
    """Log in by SCRAM. Returns the last response."""
    client = ScramClient(
        BY_MECHANISM[login.mechanism],
        login.username,
        login.password,
        secrets.token_urlsafe(_NONCE_BYTES),
    )
    challenge = await _authenticate(link, login, client.first())
    try:
        salted = await asyncio.to_thread(client.challenged(challenge.auth_bytes))
        last = await _authenticate(link, login, client.final(salted))
        client.verify(last.auth_bytes)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    return last


async def _authenticate(link: Link, login: NodeLogin, message: bytes) -> Any:
    response = await link.ask(_AUTHENTICATE, 2, auth_bytes=message)
    if response.error_code:
        why = response.error_message or ErrorCode(response.error_code).name.upper()
        raise RefusedError(f"it refuses user {login.username} by {login.mechanism}: {why}")
    return response
