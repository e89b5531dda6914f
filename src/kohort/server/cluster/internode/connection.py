"""Connection to another node, opened with the first request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kohort.protocol.messages import encode, request
from kohort.server.cluster.internode.link import Link, NodeUnreachableError

TIMEOUT_S: Final = 30.0
"""Timeout of a response, as between Kafka's brokers (`request.timeout.ms`)."""

Connect: TypeAlias = Callable[[], Awaitable[Link]]


def by_socket(path: str) -> Connect:
    """Function that connects to a node by its Unix socket."""
    return partial(_connect_by_socket, path)


async def _connect_by_socket(path: str) -> Link:
    return Link(*await asyncio.open_unix_connection(path))


class NodeConnection:
    """Requests to one node, whose responses come in order.

    If a node does not respond in time, its connection is closed with all requests in flight: later
    ones must not wait behind them, nor pile up in the socket.
    """

    def __init__(self, connect: Connect, timeout_s: float = TIMEOUT_S) -> None:
        """`connect` opens a connection to the node as it is reached now; raises OSError."""
        self._connect = connect
        self._timeout_s = timeout_s
        self._opening = asyncio.Lock()
        self._link: Link | None = None

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
        link = await self._open()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await link.ask_encoded(api_key, version, body)
        except TimeoutError as error:
            link.end(f"no response within {self._timeout_s:.0f} s")
            raise NodeUnreachableError(f"no response within {self._timeout_s:.0f} s") from error

    async def _open(self) -> Link:
        async with self._opening:
            current = self._link
            if current is None or not current.takes_requests:
                try:
                    self._link = await self._connect()
                except NodeUnreachableError:
                    raise
                except OSError as error:
                    raise NodeUnreachableError(*error.args) from error
                if current is not None:
                    current.retire()
            assert self._link is not None
            return self._link

    def close(self) -> None:
        """Close; requests in flight raise NodeUnreachableError. Idempotent."""
        if self._link is not None:
            self._link.end("closed")
