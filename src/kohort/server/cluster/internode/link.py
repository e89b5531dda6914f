"""One open connection to another node: pipelined requests, responses in order."""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any, Final

from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import encode, request, request_head, response_body_at
from kohort.protocol.reading import Read, reader

MAX_RESPONSE: Final = 256 * 1024 * 1024
"""Largest accepted response in bytes; no request between nodes has a larger one."""
_LARGE: Final = 64 * 1024
"""Bytes of a response beyond which it is decoded in a thread."""
_SIZE: Final = 4
_CLIENT_ID: Final = "node"
_POSITIVE: Final = 0x7FFFFFFF


class NodeUnreachableError(OSError):
    """The other node cannot be connected to, closed the connection, or timed out."""


class Link:
    """One connection. It accepts requests until it is lost, or its session is about to expire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_open = True
        self._expires_at: float | None = None
        self._is_retired = False
        self._writer = writer
        self._ids = count()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._reading = asyncio.create_task(self._read(reader))

    def __repr__(self) -> str:
        return f"{len(self._waiting)} in flight"

    @property
    def takes_requests(self) -> bool:
        """Whether it accepts requests; if not, a new link is needed."""
        if not self.is_open:
            return False
        return self._expires_at is None or asyncio.get_running_loop().time() < self._expires_at

    def expire_in(self, seconds: float) -> None:
        """Accept requests for this time."""
        self._expires_at = asyncio.get_running_loop().time() + seconds

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The response to a request with these fields. Raises NodeUnreachableError."""
        body = encode(request(api_key, version, **fields))
        return await self.ask_encoded(api_key, version, (body,))

    async def ask_encoded(self, api_key: int, version: int, body: Sequence[bytes]) -> Any:
        """The response to a request with this body, which is not copied to be put together.

        Raises NodeUnreachableError; its cause is what ended the connection.
        """
        if not self.is_open:
            raise NodeUnreachableError("the connection is lost")
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(response)
        head = request_head(api_key, version, next(self._ids) & _POSITIVE, _CLIENT_ID)
        size = len(head) + sum(map(len, body))
        self._writer.write(size.to_bytes(_SIZE, "big") + head)
        for piece in body:
            self._writer.write(piece)
        frame = await response
        read, body_offset = _response_reader(api_key, version), response_body_at(api_key, version)
        if len(frame) > _LARGE:
            return await asyncio.to_thread(read, frame, body_offset)
        return read(frame, body_offset)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while not self._is_over:
                size = int.from_bytes(await reader.readexactly(_SIZE), "big")
                if not 0 <= size <= MAX_RESPONSE:
                    raise MalformedError(f"a response of {size} bytes")
                frame = await reader.readexactly(size)
                response = self._waiting.popleft()
                if not response.done():  # the caller may have been cancelled
                    response.set_result(frame)
        except (OSError, EOFError, MalformedError) as error:
            self.end(f"connection lost: {error}", error)
        else:
            self.end("closed")

    @property
    def _is_over(self) -> bool:
        return self._is_retired and not self._waiting

    def retire(self) -> None:
        """Close once all that is in flight has its response."""
        self._is_retired = True
        if self._is_over:
            self.end("closed")

    def end(self, why: str, cause: Exception | None = None) -> None:
        """Close; requests in flight raise NodeUnreachableError. Idempotent."""
        self.is_open = False
        self._reading.cancel()
        self._writer.transport.abort()
        while self._waiting:
            response = self._waiting.popleft()
            if not response.done():
                lost = NodeUnreachableError(why)
                lost.__cause__ = cause
                response.set_exception(lost)


@cache
def _response_reader(api_key: int, version: int) -> Read:
    return reader(load_response_schema(api_key, version))
