"""HTTP port with a few GET routes for people, probes and scrapers, on the server's event loop.

It runs on the loop of the groups, so a response shows one consistent moment, and a probe that gets
its response proves that the loop runs. Its HTTP is the least that these clients need: a GET whose
headers are skipped but for a token, one request per connection.

With a token, only those who send it as `Authorization: Bearer TOKEN` see more than `/health`.
"""

import asyncio
import hmac
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

MAX_REQUEST: Final = 16 * 1024
MAX_CONNECTIONS: Final = 32
TIMEOUT_S: Final = 10.0
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
    """Serves `routes`, path → function; a path ending with "/" takes the rest of a longer one."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        public: Mapping[str, Route] | None = None,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """With a token, `public` routes are those of who does not send it; none needs it without.

        A context makes it HTTPS.
        """
        self._routes = routes
        self._public = public or {}
        self._token = token
        self._context = context
        self._server: asyncio.Server | None = None
        self._busy: dict[asyncio.Task[None], None] = {}  # oldest first

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address bound. Raises OSError if that is not possible."""
        self._server = await asyncio.start_server(
            self._connected,
            host,
            port,
            limit=MAX_REQUEST,
            ssl=self._context,
            ssl_handshake_timeout=None if self._context is None else TIMEOUT_S,
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def close(self) -> None:
        """Stop listening and drop requests in progress. Idempotent."""
        if self._server is not None:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._busy) >= MAX_CONNECTIONS:
            # Silent clients must not keep a probe out: the oldest one had its time.
            oldest = next(iter(self._busy))
            del self._busy[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._busy[task] = None
        task.add_done_callback(partial(self._done, writer))

    def _done(self, writer: asyncio.StreamWriter, task: "asyncio.Task[None]") -> None:
        self._busy.pop(task, None)
        if task.cancelled():
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(
                    _head_and_body(
                        await self.respond(request), with_body=not request.startswith(b"HEAD ")
                    )
                )
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client went away, or does not speak HTTP
        finally:
            writer.close()

    async def respond(self, request: bytes) -> HttpResponse:
        """The response to a request head, whatever its bytes are."""
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return json_response({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        if words[0] not in ("GET", "HEAD"):
            return json_response({"error": "only GET is served"}, HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            path = urlsplit(words[1]).path
        except ValueError:
            return json_response({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        stem, slash, rest = path[1:].partition("/")
        path = f"/{stem}/" if rest else f"/{stem}"
        route = self._routes.get(path)
        if self._token is not None and not self._has_token(request, self._token):
            route = self._public.get(path)
            if route is None:
                return json_response({"error": "a token is needed"}, HTTPStatus.UNAUTHORIZED)
        if route is None or (slash and not rest):
            return json_response(
                {"error": (f"no such path; there are {', '.join(self._routes)}")},
                HTTPStatus.NOT_FOUND,
            )
        try:
            response = route(unquote(rest))
            return response if isinstance(response, HttpResponse) else await response
        except Exception as error:  # any exception ends this response only
            return json_response(
                {"error": f"{type(error).__name__}: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR
            )

    @staticmethod
    def _has_token(request: bytes, token: str) -> bool:
        for line in request.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            scheme, _, given = value.strip().partition(b" ")
            if name.lower() == b"authorization" and scheme.lower() == b"bearer":
                return hmac.compare_digest(given.strip(), token.encode())
        return False


def _head_and_body(response: HttpResponse, *, with_body: bool) -> bytes:
    wanted = "WWW-Authenticate: Bearer\r\n" if response.status is _UNAUTHORIZED else ""
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\nContent-Type: "
        f"{response.content_type}\r\n"
        f"{wanted}Content-Length: {len(response.body)}\r\nCache-Control: no-store\r\nConnection: "
        "close\r\n\r\n"
    )
    return head.encode() + (response.body if with_body else b"")
