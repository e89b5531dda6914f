"""Servers as child processes, spoken to in raw bytes."""

import socket
import struct
from collections.abc import Callable

from kohort.testing.server_process import ServerProcess

API_VERSIONS, METADATA = 18, 3

Serve = Callable[..., ServerProcess]
"""Starts a server with these options."""


def endpoint(address: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def ask(address: str, api_key: int = API_VERSIONS, version: int = 0, body: bytes = b"") -> bytes:
    """The body of the response to one request with a non-flexible header."""
    request = struct.pack(">hhih", api_key, version, 7, -1) + body
    with socket.create_connection(endpoint(address), 60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        response = file.read(size)
    assert response[:4] == struct.pack(">i", 7)
    return response[4:]
