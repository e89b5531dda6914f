"""Invariant: no bytes make a TLS connection raise, hang, grow or serve a client not let in.

    python fuzz/tls.py [inputs]

The first byte says what a real client does before the following bytes come, and how they come. They
are records or anything else, damage to the client's second flight, or requests.

The harness is a server without sockets: a listener that requires certificates, and one with SASL.
"""

import asyncio
import atexit
import socket
import ssl
import sys
import tempfile
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from _engine import instrumented, main

with instrumented():
    from kohort.server.broker import Broker
    from kohort.server.config import Config
    from kohort.server.net.tls_protocol import BUFFER_BYTES, TlsProtocol

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from server.certificates import Authority

SOCKET: Final = socket.socket()  # that nothing is sent by
LARGEST_ANSWER: Final = 64 * 1024
"""Bytes that the server sends without a request."""
BYTE_BY_BYTE: Final = 64

HAS_CERTIFICATE: Final = 0x10
OLD_VERSION: Final = 0x20
IN_PIECES: Final = 0x40
WITH_SASL: Final = 0x80


class Stage(Enum):
    """When and how the bytes of an input come, by the lowest bits of its first byte."""

    FIRST = 0
    AFTER_HELLO = 1
    DAMAGE = 2
    """Of the flight that ends the handshake: three bytes each say where, and with which bits."""
    AFTER_HANDSHAKE = 3
    REQUESTS = 4
    """Encrypted by the client."""


class Transport:
    """Transport below TLS."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_open = True

    def write(self, data: bytes) -> None:
        if self.is_open:
            self.sent += data

    def take(self) -> bytes:
        taken = bytes(self.sent)
        self.sent.clear()
        return taken

    def get_extra_info(self, _name: str, default: object = None) -> object:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return not self.is_open

    def close(self) -> None:
        self.is_open = False

    def abort(self) -> None:
        self.is_open = False

    def _force_close(self, _error: Exception | None) -> None:
        self.is_open = False

    def pause_reading(self) -> None:
        """What comes is bounded."""

    resume_reading = pause_reading


class Client:
    """A client without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname="localhost")

    def flight(self, data: bytes = b"") -> bytes:
        """What it sends for the server's bytes until the end of the handshake."""
        self._received.write(data)
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._sent.read()

    def request(self, answer: bytes, data: bytes) -> bytes:
        """`data` encrypted, or what else it sends if the server's last bytes refuse it."""
        with suppress(ssl.SSLError):
            self.flight(answer)
            self._tls.write(data)
        return self._sent.read()


class Harness:
    """A server, and the checks around one client."""

    def __init__(self) -> None:
        self._escaped: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._escaped.append(context))
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        with tempfile.TemporaryDirectory(prefix="kohort-fuzz-") as directory:
            authority = Authority(Path(directory))
            certificate = authority.issue("client.pem", "client.test")
            self._contexts = {
                (has_certificate, is_old): _client(
                    authority, certificate if has_certificate else None, is_old=is_old
                )
                for has_certificate in (False, True)
                for is_old in (False, True)
            }
            settings = {
                "listeners": "SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
                "storage": "memory",
                "ssl.keystore.location": str(authority.issue("server.pem")),
                "ssl.truststore.location": str(authority.file),
                "listener.name.ssl.ssl.client.auth": "required",
                "max.failed.authentications.per.ip": 2**31 - 1,
            }
            self._broker = Broker(Config(settings))
            self._loop.run_until_complete(self._broker.start())

    def close(self) -> None:
        self._loop.run_until_complete(self._broker.close())
        self._loop.close()

    def client(self, how: int) -> Client:
        return Client(self._contexts[bool(how & HAS_CERTIFICATE), bool(how & OLD_VERSION)])

    def run(self, data: bytes) -> None:
        """One connection, from its first byte to its end."""
        how = data[0] if data else 0
        self._loop.run_until_complete(self._session(how, Stage(how % 16 % len(Stage)), data[1:]))
        assert not self._escaped, self._escaped
        assert not self._broker.listener.metrics.failed, "a handler failed"
        assert not self._broker.listener.statistics().connections, "a connection stays"

    async def _session(self, how: int, stage: Stage, data: bytes) -> None:
        listener = self._broker.listener.listeners[bool(how & WITH_SASL)]
        connection = listener.new_connection("127.0.0.1", SOCKET)
        assert connection is not None
        assert listener.protection.tls is not None
        handshake = self._loop.create_future()
        tls = asyncio.sslproto.SSLProtocol(  # type: ignore[attr-defined]
            self._loop,
            TlsProtocol(connection, self._buffer),
            listener.protection.tls.context,
            handshake,
            server_side=True,
        )
        transport = Transport()
        tls.connection_made(transport)
        before = self._broker.listener.metrics.requests.total()
        client = self.client(how)
        await _speak(client, stage, data, Wire(tls, transport, in_pieces=bool(how & IN_PIECES)))
        served = self._broker.listener.metrics.requests.total() - before
        may_ask = stage is Stage.REQUESTS and how & (HAS_CERTIFICATE | WITH_SASL)
        assert may_ask or not served, "a request was served"
        assert served or len(transport.sent) <= LARGEST_ANSWER, "grows"
        if transport.is_open:
            tls.eof_received()
        tls.connection_lost(None)
        if handshake.exception() is not None:
            connection.connection_lost(None)  # as the listener does
        await asyncio.sleep(0)


class Wire:
    """The way from a client to the server's TLS."""

    def __init__(self, tls: Any, transport: Transport, *, in_pieces: bool) -> None:
        self._tls = tls
        self._transport = transport
        self._in_pieces = in_pieces

    async def send(self, data: bytes) -> bytes:
        """What the server sends for it."""
        at = BYTE_BY_BYTE if self._in_pieces else 0
        for piece in (*(data[i : i + 1] for i in range(min(at, len(data)))), data[at:]):
            if piece and self._transport.is_open:
                self._tls.get_buffer(len(piece))[: len(piece)] = piece
                self._tls.buffer_updated(len(piece))
        await asyncio.sleep(0)
        return self._transport.take()


async def _speak(client: Client, stage: Stage, data: bytes, wire: Wire) -> None:
    if stage is not Stage.FIRST:
        answer = await wire.send(client.flight())
        if stage is not Stage.AFTER_HELLO:
            last = client.flight(answer)
            if stage is Stage.DAMAGE:
                await wire.send(_damaged(last, data))
                return
            answer = await wire.send(last)
            if stage is Stage.REQUESTS:
                data = client.request(answer, data)
    await wire.send(data)


def _damaged(flight: bytes, damage: bytes) -> bytes:
    damaged = bytearray(flight)
    for at in range(0, len(damage) - 2, 3):
        damaged[int.from_bytes(damage[at : at + 2], "big") % len(damaged)] ^= damage[at + 2]
    return bytes(damaged)


def _client(authority: Authority, certificate: Path | None, *, is_old: bool) -> ssl.SSLContext:
    context: ssl.SSLContext = authority.client(certificate)
    version = ssl.TLSVersion.TLSv1_2 if is_old else ssl.TLSVersion.TLSv1_3
    context.minimum_version = context.maximum_version = version
    return context


@cache
def harness() -> Harness:
    made = Harness()
    atexit.register(made.close)
    return made


def record(kind: int, content: bytes, size: int | None = None) -> bytes:
    size = len(content) if size is None else size
    return bytes((kind, 3, 3)) + size.to_bytes(2, "big") + content


def seeds() -> list[bytes]:
    hellos = [harness().client(how).flight() for how in (0, OLD_VERSION)]
    records = [
        *hellos,
        hellos[0][:20],
        # One handshake message in several records.
        record(22, hellos[0][5:50]) + record(22, hellos[0][50:]),
        record(20, b"\1"),
        record(21, b"\1\0"),
        record(21, b"\1\x5a"),  # a warning that there is no renegotiation
        record(21, b"\2\x28"),
        record(22, bytes(4)),  # HelloRequest
        record(22, b"\x18\0\0\1\1"),  # KeyUpdate
        record(23, b""),
        record(23, bytes(100)),
        record(23, bytes(100), 0xFFFF),
        record(24, b"\1\x40\0"),  # a heartbeat longer than it is
        b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(37),  # SSL 2
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
    ]
    request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"
    raw = (Stage.FIRST, Stage.AFTER_HELLO, Stage.AFTER_HANDSHAKE)
    flags = (0, HAS_CERTIFICATE, OLD_VERSION | HAS_CERTIFICATE, WITH_SASL, WITH_SASL | IN_PIECES)
    return [
        bytes((stage.value | how,)) + data
        for how in flags
        for stage, data in (
            *((stage, data) for stage in raw for data in records),
            *((Stage.DAMAGE, damage) for damage in (b"", b"\0\0\1", b"\0\3\x80\1\0\1")),
            *((Stage.REQUESTS, data) for data in (request, b"", bytes(100))),
        )
    ]


def check(data: bytes) -> None:
    harness().run(data)


if __name__ == "__main__":
    main(check, seeds())
