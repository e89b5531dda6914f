"""A connection to another node, opened when it is needed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, Final, TypeAlias

from kio.index import load_response_schema

from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import encode, request, request_head, response_body_at
from kohort.protocol.reading import Read, reader

MAX_RESPONSE: Final = 256 * 1024 * 1024
"""Bytes of a response; no request has a larger one."""
TIMEOUT_S: Final = 30.0
"""Time that a node has for its response, as between Kafka's brokers (request.timeout.ms)."""
_SIZE: Final = 4
_CLIENT_ID: Final = "node"
_POSITIVE: Final = 0x7FFFFFFF


Connect: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def by_socket(path: str) -> Connect:
    """Connects by a node's Unix socket."""
    return partial(asyncio.open_unix_connection, path)


class NodeUnreachableError(OSError):
    """The other node is not there, went away before it responded, or does not respond in time."""


class NodeConnection:
    """Requests to one node, whose responses come in order.

    A node that does not respond in time loses the connection, with all that is in flight: what is
    asked later must not wait behind it, nor pile up in the socket.
    """

    def __init__(self, connect: Connect, timeout_s: float = TIMEOUT_S) -> None:
        """`connect` opens a connection to the node as it is reached now; raises OSError."""
        self._connect = connect
        self._timeout_s = timeout_s
        self._opening = asyncio.Lock()
        self._link: _Link | None = None
        self._ids = count()

    def __repr__(self) -> str:
        return f"<NodeConnection {self._link}>"

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The response to a request with these fields. Raises NodeUnreachableError."""
        return await self.ask_encoded(
            api_key, version, (encode(request(api_key, version, **fields)),)
        )

    async def ask_encoded(self, api_key: int, version: int, body: Sequence[bytes]) -> Any:
        """The response to a request with this body, which is not copied to be put together.

        Raises NodeUnreachableError.
        """
        head = request_head(api_key, version, next(self._ids) & _POSITIVE, _CLIENT_ID)
        link = await self._open()
        try:
            async with asyncio.timeout(self._timeout_s):
                frame = await link.ask(head, body)
        except TimeoutError as error:
            link.end(f"no response within {self._timeout_s:.0f} s")
            raise NodeUnreachableError(f"no response within {self._timeout_s:.0f} s") from error
        return _response_reader(api_key, version)(frame, response_body_at(api_key, version))

    async def _open(self) -> "_Link":
        async with self._opening:
            if self._link is None or not self._link.is_open:
                try:
                    self._link = _Link(*await self._connect())
                except OSError as error:
                    raise NodeUnreachableError(*error.args) from error
            return self._link

    def close(self) -> None:
        """Close; what is in flight raises NodeUnreachableError. Idempotent."""
        if self._link is not None:
            self._link.end("closed")


class _Link:
    """One opened connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_open = True
        self._writer = writer
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._reading = asyncio.create_task(self._read(reader))

    def __repr__(self) -> str:
        return f"{len(self._waiting)} in flight"

    async def ask(self, head: bytes, body: Sequence[bytes]) -> bytes:
        """The frame of the response, without its size. Raises NodeUnreachableError."""
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(response)
        size = len(head) + sum(map(len, body))
        self._writer.write(size.to_bytes(_SIZE, "big") + head)
        for piece in body:
            self._writer.write(piece)
        return await response

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(_SIZE), "big")
                if not 0 <= size <= MAX_RESPONSE:
                    raise MalformedError(f"a response of {size} bytes")
                frame = await reader.readexactly(size)
                response = self._waiting.popleft()
                if not response.done():  # who waited for it may have been cancelled
                    response.set_result(frame)
        except (OSError, EOFError, MalformedError) as error:
            self.end(f"connection lost: {error}")

    def end(self, why: str) -> None:
        """Close; what is in flight raises NodeUnreachableError. Idempotent."""
        self.is_open = False
        self._reading.cancel()
        self._writer.transport.abort()
        while self._waiting:
            response = self._waiting.popleft()
            if not response.done():
                response.set_exception(NodeUnreachableError(why))


@cache
def _response_reader(api_key: int, version: int) -> Read:
    return reader(load_response_schema(api_key, version))
