"""HTTP port with a few GET routes for people, probes and scrapers, on the server's event loop.

It runs on the loop of the groups, so a response shows one consistent moment, and a probe that gets
its response proves that the loop runs. Its HTTP is the least that these clients need: a GET whose
headers are skipped but for a token, one request per connection.

Sockets are accepted here and not by the loop, so that a connection counts from its TLS handshake to
the last byte that its client reads: there are at most `MAX_CONNECTIONS`, for `TIMEOUT_S` each.

With a token, requests without `Authorization: Bearer TOKEN` see `/health` and `/ready` only.
"""

import asyncio
import hmac
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import unquote

from kohort.server.addresses import Address
from kohort.server.net import Tls, close_all, listen_on, listen_on_path
from kohort.server.tls import handshaking
from kohort.util.text import did_you_mean

MAX_REQUEST: Final = 16 * 1024
MAX_CONNECTIONS: Final = 32
TIMEOUT_S: Final = 10.0
OUT_OF_FILES_DELAY_S: Final = 1.0
"""Pause when the system has no file descriptor for a connection."""
_TARGET: Final = re.compile(r"(?:https?://[^/?#\s]*)?/([^?#\x00- \x7f]*)(?:[?#]\S*)?")
"""The request target, parsed as proxies do, which may admit some paths only."""
_UNAUTHORIZED: Final = HTTPStatus.UNAUTHORIZED


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


Route: TypeAlias = Callable[[str], HttpResponse | Awaitable[HttpResponse]]
"""Called with the decoded rest of the path behind the route: "" or a group id."""


def json_response(value: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    """`value` as JSON."""
    return HttpResponse(status, json.dumps(value).encode() + b"\n")


class HttpPort:
    """Serves `routes`, path → function.

    A path that ends with "/" takes the rest of a longer one. One with `NAME` as its second part,
    such as "/groups/NAME/explain", takes what stands there, and goes before it.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        public: Mapping[str, Route] | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """With a token, requests without it have the `public` routes only.

        `tls` makes it HTTPS.
        """
        self._routes = routes
        self._public = public or {}
        self._token = token
        self._tls = tls
        self._timeout_s = timeout_s
        self._sockets: list[socket.socket] = []
        self._pause: asyncio.TimerHandle | None = None
        self._busy: dict[asyncio.Task[None], None] = {}  # oldest first

    async def start(self, host: str, port: int) -> Address:
        """Listen; returns the address bound. Raises OSError if that is not possible."""
        address, self._sockets = await listen_on(Address(host, port))
        self._set_accepting(True)
        return address

    def start_on_path(self, path: str) -> None:
        """Listen on a Unix socket, whose file only this user can open. Raises OSError."""
        self._sockets = [listen_on_path(path)]
        self._set_accepting(True)

    async def close(self) -> None:
        """Stop listening and drop requests in progress. Idempotent."""
        if self._pause is not None:
            self._pause.cancel()
        self._set_accepting(False)
        close_all(self._sockets)
        self._sockets = []
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    def _set_accepting(self, accepts: bool) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if accepts:
                loop.add_reader(listening, self._accept, listening)
            else:
                loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._set_accepting(False)
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(OUT_OF_FILES_DELAY_S, self._set_accepting, True)
            return
        accepted.setblocking(False)
        if len(self._busy) >= MAX_CONNECTIONS:
            # Silent clients must not keep a probe out: the oldest one had its time.
            oldest = next(iter(self._busy))
            del self._busy[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._converse(accepted))
        self._busy[task] = None
        task.add_done_callback(lambda _: self._busy.pop(task, None))

    async def _converse(self, accepted: socket.socket) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, writer = await self._open(accepted)
                # A client of Kafka, or of TLS, waits for a response, and sends no end of line.
                request = await reader.readexactly(1)
                if request.isalpha():
                    request += await reader.readuntil(b"\r\n\r\n")
                writer.write(
                    _head_and_body(
                        await self.respond(request), with_body=not request.startswith(b"HEAD ")
                    )
                )
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            # The client went away, is slow, or does not speak HTTP. asyncio's frames refer to the
            # future that has the error of a TLS handshake, until Python 3.11.8.
            error.with_traceback(None)
        finally:
            if writer is not None:
                writer.transport.abort()  # unread bytes must not keep the connection open

    async def _open(
        self, accepted: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        handshaking.set(accepted)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_REQUEST)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=None if self._tls is None else self._tls.context
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def respond(self, request: bytes) -> HttpResponse:
        """The response to a request head, whatever its bytes are."""
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return json_response({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        if words[0] not in ("GET", "HEAD"):
            return json_response({"error": "only GET is served"}, HTTPStatus.METHOD_NOT_ALLOWED)
        target = _TARGET.fullmatch(words[1])
        if target is None:
            return json_response({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        stem, slash, name = target[1].partition("/")
        path = f"/{stem}/" if name else f"/{stem}"
        subject, _, view = name.rpartition("/")
        if f"/{stem}/NAME/{view}" in self._routes and subject:
            path, name = f"/{stem}/NAME/{view}", subject
        route = self._routes.get(path)
        if self._token is not None and not self._has_token(request, self._token):
            route = self._public.get(path)
            if route is None:
                return json_response({"error": "a token is needed"}, HTTPStatus.UNAUTHORIZED)
        if route is None or (slash and not name):
            return self._no_such_path(path)
        try:
            response = route(unquote(name))
            return response if isinstance(response, HttpResponse) else await response
        except Exception as error:  # any exception ends this response only
            return json_response(
                {"error": f"{type(error).__name__}: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR
            )

    def _no_such_path(self, path: str) -> HttpResponse:
        paths = [f"{path}NAME" if path[1:].endswith("/") else path for path in self._routes]
        hint = did_you_mean(path, self._routes.keys() - {path})
        error = f"no such path; there are {', '.join(paths)}{hint}"
        return json_response({"error": error}, HTTPStatus.NOT_FOUND)

    @staticmethod
    def _has_token(request: bytes, token: str) -> bool:
        for line in request.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            scheme, _, credentials = value.strip().partition(b" ")
            if name.lower() == b"authorization" and scheme.lower() == b"bearer":
                return hmac.compare_digest(credentials.strip(), token.encode())
        return False


def _head_and_body(response: HttpResponse, *, with_body: bool) -> bytes:
    authenticate = "WWW-Authenticate: Bearer\r\n" if response.status is _UNAUTHORIZED else ""
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\nContent-Type: "
        f"{response.content_type}\r\n"
        f"{authenticate}Content-Length: {len(response.body)}\r\nCache-Control: "
        "no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (response.body if with_body else b"")
