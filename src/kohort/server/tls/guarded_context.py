"""TLS where OpenSSL and the event loops leave a gap: alerts, and floods of requests for new keys.

OpenSSL writes an alert when a handshake fails, but both event loops abort the connection, and drop
what is not sent. A client would only see that it was disconnected, and connect again. By the alert
it learns that its certificate is refused, which Kafka's clients take for final.

OpenSSL answers each request for new keys (KeyUpdate of TLS 1.3) with 27 bytes in 10 µs, also while
the client does not read. The 10,000 of one read would hold up others for 100 ms.
"""

import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

handshaking: Final[ContextVar[socket.socket | None]] = ContextVar("handshaking", default=None)
"""The socket of the connection that the current task opens."""

ANSWERS_BYTES: Final = 1024
"""Maximum output of OpenSSL for one read: forty key updates, where even one is rare."""


class _GuardedObject(ssl.SSLObject):
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

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        written = self.outgoing.pending
        try:
            return super().read(len, buffer)
        finally:
            if self.outgoing.pending - written > ANSWERS_BYTES:
                raise ssl.SSLError("too many requests for new keys")


class GuardedContext(ssl.SSLContext):
    """A context whose failed handshakes end with an alert on the socket `handshaking`.

    More than `ANSWERS_BYTES` in a read end the connection.
    """

    sslobject_class = _GuardedObject

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **named: Any
    ) -> ssl.SSLObject:
        """As `ssl.SSLContext` does; the event loops call it for each connection."""
        guarded = super().wrap_bio(incoming, outgoing, *arguments, **named)
        assert isinstance(guarded, _GuardedObject)
        guarded.accepted, guarded.outgoing = handshaking.get(), outgoing
        return guarded
