"""The SASL session of one connection: authentication, and its renewal (KIP-368)."""

import asyncio
from collections.abc import Callable
from typing import Final

from kohort.client.errors import BrokerUnreachableError
from kohort.client.net.handshake import Send, authenticate
from kohort.client.net.in_flight_requests import InFlightRequests
from kohort.client.net.send_gate import BlockReason, SendGate
from kohort.client.security import Security

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
        message_timeout_s: float,
    ) -> None:
        """`send` passes the gate. `on_failure` is called if a renewal fails.

        `message_timeout_s`: limit for a message of the client, such as for the source of its
        tokens.
        """
        self._send = send
        self._security = security
        self._gate = gate
        self._in_flight = in_flight
        self._on_failure = on_failure
        self._message_timeout_s = message_timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def authenticate(self) -> None:
        """Raises AuthenticationError, BrokerUnreachableError, KafkaError."""
        lifetime_ms = await authenticate(self._send, self._security, self._message_timeout_s)
        if lifetime_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(
                lifetime_ms / 1000 * REAUTHENTICATION_FRACTION, self._start_renewing
            )

    def stop(self) -> None:
        """Renew no more, and end a renewal: the source of tokens may never return."""
        if self._timer is not None:
            self._timer.cancel()
        renewing = self._renewing
        if renewing is not None and renewing is not asyncio.current_task(renewing.get_loop()):
            renewing.cancel()

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
        except Exception as error:  # also a fault of our own: the session ends without a renewal
            self._on_failure(
                BrokerUnreachableError(f"authentication could not be renewed: {error}")
            )
        finally:
            self._renewing = None
            self._gate.unblock(BlockReason.RENEWING)
