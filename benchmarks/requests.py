"""Requests as bytes over a blocking socket, for loads that a client would slow down."""

import socket
from typing import Any, Final, Self

from kohort.client.net.versions import wire
from kohort.protocol.framing import CONTENT

TIMEOUT_S: Final = 120.0
_CLIENT_ID: Final = b"\x00\x09benchmark"


def frame(api: str, version: int, **fields: object) -> bytes:
    """A request as it is sent; numbers that are not named have their defaults."""
    encoding = wire(api, version)
    body = encoding.body(fields)
    return encoding.head(1, _CLIENT_ID, len(body)) + body


def decoded(api: str, version: int, response: bytes) -> Any:
    """The body of a response without its size."""
    encoding = wire(api, version)
    return encoding.read(response, encoding.body_offset(response))


class Peer:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def response(self) -> bytes:
        """Wait for the next response, and return it without its size."""
        size = int.from_bytes(self._file.read(CONTENT), "big")
        assert size, "the server closed the connection"
        return self._file.read(size)

    def ask(self, api: str, version: int, **fields: object) -> Any:
        """The body of the response to a request."""
        self.send(frame(api, version, **fields))
        return decoded(api, version, self.response())
