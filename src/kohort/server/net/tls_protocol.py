"""Protocol of TLS transports: decrypts into one buffer for all connections.

TLS of asyncio and of uvloop decrypts each request of a plain protocol into 256 KiB of new memory.
It decrypts into the buffer of a `BufferedProtocol`, which is why there is one in between.
"""

import asyncio
from typing import Final, cast

from kohort.server.net.connection import Connection
from kohort.server.net.pacing import EncryptingTransport
from kohort.server.net.request_memory import UNMETERED

BUFFER_BYTES: Final = 256 * 1024 + 256
"""More than a transport asks for."""


class TlsProtocol(asyncio.BufferedProtocol):
    """Protocol of a TLS transport between it and `connection`.

    `buffer` is that of all connections of an event loop: it is in use only between `get_buffer` and
    `buffer_updated`, which a transport calls without a turn of the loop in between.
    """

    def __init__(self, connection: Connection, buffer: memoryview) -> None:
        self._buffer = buffer
        self._connection = connection
        self._data_received = connection.data_received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        # Unread responses are counted from there on, until the transport resumes writing.
        tls.set_write_buffer_limits(UNMETERED)
        self._encrypting = EncryptingTransport(tls, self._connection)
        self._connection.connection_made(self._encrypting)

    def connection_lost(self, error: Exception | None) -> None:
        self._encrypting.connection_lost()
        # The transport refers to this, and has 50 KB: it must not wait for a garbage collection.
        del self._encrypting
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._encrypting.pause_writing()

    def resume_writing(self) -> None:
        self._encrypting.resume_writing()

    def eof_received(self) -> bool:
        self._connection.eof_received()
        # TLS takes nothing more, and closes whatever is returned.
        self._encrypting.connection_lost()
        return False

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._data_received(bytes(self._buffer[:nbytes]))
