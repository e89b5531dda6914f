"""TLS alerts, which tell a client why its handshake failed.

OpenSSL writes the alert, but both event loops abort a connection when its handshake fails, and drop
what is not sent. A client would only see that it was disconnected, and connect again. By an alert
it learns that its certificate is refused, which Kafka's clients take for final.
"""

import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

handshaking: Final[ContextVar[socket.socket | None]] = ContextVar("handshaking", default=None)
"""The socket of the connection that the current task opens."""


class _AlertingObject(ssl.SSLObject):
    accepted: socket.socket | None
    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.accepted is not None:
                with suppress(OSError):
                    self.accepted.send(self.outgoing.read())
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose failed handshakes end with an alert on the socket `handshaking`."""

    sslobject_class = _AlertingObject

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **named: Any
    ) -> ssl.SSLObject:
        """As `ssl.SSLContext` does; the event loops call it for each connection."""
        made = super().wrap_bio(incoming, outgoing, *arguments, **named)
        assert isinstance(made, _AlertingObject)
        made.accepted, made.outgoing = handshaking.get(), outgoing
        return made
