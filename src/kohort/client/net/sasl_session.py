"""The SASL session of one connection: authentication, and its renewal (KIP-368)."""

import asyncio
from collections.abc import Callable
from typing import Final

from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.client.net.handshake import Send, authenticate
from kohort.client.net.in_flight_requests import InFlightRequests
from kohort.client.net.send_gate import BlockReason, SendGate
from kohort.client.security import Security
from kohort.errors import KafkaError

REAUTHENTICATION_FRACTION: Final = 0.85
"""Part of a SASL session's lifetime after which it is renewed, as in Java's client."""


class SaslSession:
    """Authenticates a connection, again and again before the session ends."""

    def __init__(
        self,
        send: Send,
        security: Security,
        gate: SendGate,
        in_flight: InFlightRequests,
        on_failure: Callable[[BrokerUnreachableError], object],
    ) -> None:
        """`send` passes the gate. `on_failure` is called if a renewal fails."""
        self._send = send
        self._security = security
        self._gate = gate
        self._in_flight = in_flight
        self._on_failure = on_failure
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def authenticate(self) -> None:
        """Raises AuthenticationError, BrokerUnreachableError, KafkaError."""
        lifetime_ms = await authenticate(self._send, self._security)
        if lifetime_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(
                lifetime_ms / 1000 * REAUTHENTICATION_FRACTION, self._start_renewing
            )

    def stop(self) -> None:
        """Renew no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _start_renewing(self) -> None:
        self._gate.block(BlockReason.RENEWING)
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Authenticate again while no other request is sent.

        A broker accepts no other request between the messages of an authentication. It also accepts
        none before all requests in flight have their responses, and a JoinGroup may wait for longer
        than `request_timeout_ms`: until then the handshake is not sent. The session may end
        meanwhile.
        """
        try:
            await self._in_flight.wait_until_empty()
            await self.authenticate()
        except (AuthenticationError, BrokerUnreachableError, KafkaError) as error:
            self._on_failure(
                BrokerUnreachableError(f"authentication could not be renewed: {error}")
            )
        finally:
            self._renewing = None
            self._gate.unblock(BlockReason.RENEWING)
