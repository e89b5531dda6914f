"""A connection to another node, opened when it is needed."""

import asyncio
from collections import deque
from functools import cache
from itertools import count
from typing import Any, Final

from kio.index import load_response_schema

from kohort.protocol.framing import MalformedError
from kohort.protocol.messages import encode, request, request_head, response_body_at
from kohort.protocol.reading import Read, reader

MAX_RESPONSE: Final = 256 * 1024 * 1024
"""Bytes of a response; no request has a larger one."""
_SIZE: Final = 4
_CLIENT_ID: Final = "node"
_POSITIVE: Final = 0x7FFFFFFF


class NodeUnreachableError(OSError):
    """The other node is not there, or went away before it responded."""


class NodeConnection:
    """Requests to one node, whose responses come in order."""

    def __init__(self, path: str) -> None:
        """`path` is that of the node's Unix socket."""
        self._path = path
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._ids = count()

    def __repr__(self) -> str:
        return f"<NodeConnection {self._path} {len(self._waiting)} in flight>"

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The response to a request with these fields. Raises NodeUnreachableError."""
        body = encode(request(api_key, version, **fields))
        writer = await self._open()
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(response)
        head = request_head(api_key, version, next(self._ids) & _POSITIVE, _CLIENT_ID)
        writer.write((len(head) + len(body)).to_bytes(_SIZE, "big") + head + body)
        body_at = response_body_at(api_key, version)
        return _response_reader(api_key, version)(await response, body_at)

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                try:
                    reader, writer = await asyncio.open_unix_connection(self._path)
                except OSError as error:
                    raise NodeUnreachableError(*error.args) from error
                self._writer = writer
                self._reading = asyncio.create_task(self._read(reader, writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            self._lost(error)
        finally:
            writer.transport.abort()

    def _lost(self, error: Exception) -> None:
        self._writer = None
        waiting, self._waiting = self._waiting, deque()
        for response in waiting:
            if not response.done():
                response.set_exception(NodeUnreachableError(f"connection lost: {error}"))

    def close(self) -> None:
        """Close; what is in flight raises NodeUnreachableError. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
        self._lost(EOFError("closed"))


@cache
def _response_reader(api_key: int, version: int) -> Read:
    return reader(load_response_schema(api_key, version))
