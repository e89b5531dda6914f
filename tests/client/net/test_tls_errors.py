"""Failures of TLS that are final, and those after which another attempt may succeed."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kohort.client.config import ClientConfig
from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.client.net import Connection
from kohort.client.security import Security

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RECORD = 16 * 1024
HANDSHAKE_FAILURE = bytes([21, 3, 3, 0, 2, 2, 40])
"""A fatal alert as a record of TLS."""
WITHOUT_LINGERING = struct.pack("ii", 1, 0)


async def open_connection(serve: Serve, security: Security) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()[:2]
        await Connection.open(address, ClientConfig(security=security))


def responds(response: bytes) -> Serve:
    """A server that sends this after the client's first message, and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(RECORD)
        writer.write(response)
        writer.close()

    return serve


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(RECORD)
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, WITHOUT_LINGERING)
    writer.transport.abort()


@pytest.fixture
def half(certificate: tuple[Path, Path]) -> Serve:
    """A server that closes the connection within its own first message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        received.write(await reader.read(RECORD))
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(received, sent, server_side=True).do_handshake()
        writer.write(sent.read()[:100])
        writer.close()

    return serve


@pytest.mark.parametrize("response", [HANDSHAKE_FAILURE, b"\0\0\0\4 no TLS, but another protocol"])
async def test_a_refused_handshake_is_final(
    response: bytes,
) -> None:
    with pytest.raises(AuthenticationError, match="TLS with 127"):
        await open_connection(responds(response), Security(protocol="SSL"))


@pytest.mark.parametrize("serve", [responds(b""), reset])
async def test_a_connection_that_ends_in_the_handshake_is_retried(serve: Serve) -> None:
    with pytest.raises(BrokerUnreachableError, match="closed the connection during the TLS"):
        await open_connection(serve, Security(protocol="SSL"))


async def test_a_connection_that_ends_within_a_message_is_retried(half: Serve) -> None:
    with pytest.raises(BrokerUnreachableError, match="closed the connection during the TLS"):
        await open_connection(half, Security(protocol="SSL"))


def failing_handshakes(error: ssl.SSLError) -> ssl.SSLContext:
    """A context whose handshakes raise `error`: Python and the loop decide which one an end is."""

    class Failing(ssl.SSLObject):
        def do_handshake(self) -> None:
            raise error

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = Failing
    return context


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"),
    ],
)
async def test_an_end_that_openssl_reports_is_retried(error: ssl.SSLError) -> None:
    security = Security(protocol="SSL", ssl_context=failing_handshakes(error))
    with pytest.raises(BrokerUnreachableError, match="closed the connection during the TLS"):
        await open_connection(responds(b""), security)
