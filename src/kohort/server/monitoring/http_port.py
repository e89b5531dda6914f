"""The HTTP port: a handful of GETs for people, probes and scrapers, on the server's own event loop.

It runs where the groups live, so what it shows is one consistent moment, and a probe that is
answered proves that the loop turns. Only what these need is understood: a GET with headers that are
skipped, one request per connection.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

MAX_REQUEST: Final = 16 * 1024
MAX_CONNECTIONS: Final = 32
TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


Route: TypeAlias = Callable[[str], Answer]
"""Called with what follows the route in the path, decoded: "" or a group id."""


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """`value` as JSON."""
    return Answer(status, json.dumps(value).encode() + b"\n")


class HttpPort:
    """Serves `routes`, path → function; a path that ends with "/" takes what follows it."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; gives the address bound. Raises OSError if that is not possible."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=MAX_REQUEST)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def close(self) -> None:
        """Stop listening and drop what is being answered. Idempotent."""
        if self._server is not None:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._busy) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(
                    _head_and_body(
                        self._answer(request), with_body=not request.startswith(b"HEAD ")
                    )
                )
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # It went away, or is no HTTP client: there is nobody to tell.
        finally:
            writer.close()

    def _answer(self, request: bytes) -> Answer:
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return json_answer({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        if words[0] not in ("GET", "HEAD"):
            return json_answer({"error": "only GET is served"}, HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            path = urlsplit(words[1]).path
        except ValueError:
            return json_answer({"error": "not an HTTP/1 request"}, HTTPStatus.BAD_REQUEST)
        stem, slash, rest = path[1:].partition("/")
        route = self._routes.get(f"/{stem}/" if rest else f"/{stem}")
        if route is None or (slash and not rest):
            return json_answer(
                {"error": (f"no such path; there are {', '.join(self._routes)}")},
                HTTPStatus.NOT_FOUND,
            )
        try:
            return route(unquote(rest))
        except Exception as error:  # whatever it is, it ends this answer only
            return json_answer(
                {"error": f"{type(error).__name__}: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR
            )


def _head_and_body(answer: Answer, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: "
        f"{answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: "
        "close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")
