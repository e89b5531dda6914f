"""A TCP proxy before a broker, which can be shut for single clients, lose requests of theirs, or
respond to them itself: the network between them fails, and the broker and everybody else go on.
"""

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

Shut = Literal["reset", "silent"]
"""`reset`: connections break, and new ones at once. `silent`: they stay, and nothing comes through;
what was sent arrives when the door opens again, late, as what TCP sends again does.
"""
CHUNK = 65_536
HEADER = struct.Struct(">hhih")
"""Of a request: API key, version, correlation id, and the length of the client id behind it."""
Respond = Callable[[bytes], bytes]
"""From a request to its response, both without their size."""


@dataclass(frozen=True)
class _Caught:
    """Requests that do not get to the broker."""

    respond: Respond | None
    """None: they are lost."""
    one: threading.Event = field(default_factory=threading.Event)
    """Set when there is one."""


class Door:
    """A context manager; it runs in a thread of its own. A client is known by the client id of its
    first request.
    """

    def __init__(self) -> None:
        self.upstream = ""
        """HOST:PORT of the broker."""
        self._loop = asyncio.new_event_loop()
        self._reset: set[str] = set()
        self._caught: dict[tuple[str, int], _Caught] = {}
        self._passes: dict[str, asyncio.Event] = {}
        self._links: dict[asyncio.Task[None], str] = {}
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        opening = asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @contextmanager
    def shut(self, **clients: Shut) -> Iterator[None]:
        """Cut these clients off, each in its way, for the time of the block."""
        self._loop.call_soon_threadsafe(self._shut, clients)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._open, clients)

    @contextmanager
    def losing(self, client: str, api_key: int) -> Iterator[threading.Event]:
        """Lose the client's requests of this kind for the time of the block, at whose end its
        connections break. The event: one is lost.
        """
        with self._catching(client, api_key, None) as lost:
            yield lost
        self._loop.call_soon_threadsafe(self._break, client)

    @contextmanager
    def responding(self, client: str, api_key: int, respond: Respond) -> Iterator[threading.Event]:
        """Respond to the client's requests of this kind in place of the broker for the time of the
        block. The event: one got its response.
        """
        with self._catching(client, api_key, respond) as responded:
            yield responded

    @contextmanager
    def _catching(
        self, client: str, api_key: int, respond: Respond | None
    ) -> Iterator[threading.Event]:
        caught = self._caught[client, api_key] = _Caught(respond)
        try:
            yield caught.one
        finally:
            del self._caught[client, api_key]

    # --- in the loop ---

    def _shut(self, clients: dict[str, Shut]) -> None:
        for client, how in clients.items():
            if how == "silent":
                self._pass(client).clear()
                continue
            self._reset.add(client)
            self._break(client)

    def _break(self, client: str) -> None:
        for link, of in self._links.items():
            if of == client:
                link.cancel()

    def _open(self, clients: dict[str, Shut]) -> None:
        self._reset -= clients.keys()
        for client in clients:
            self._pass(client).set()

    def _pass(self, client: str) -> asyncio.Event:
        if client not in self._passes:
            self._passes[client] = asyncio.Event()
            self._passes[client].set()
        return self._passes[client]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        try:
            request = await _request(reader)
            *_, length = HEADER.unpack_from(request)
            client = request[HEADER.size : HEADER.size + max(length, 0)].decode()
            if client in self._reset:
                return
            self._links[link] = client
            await self._forward(client, request, reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the broker is not there, and the client learns of it; or it has asked nothing
        finally:
            self._links.pop(link, None)
            writer.close()

    async def _forward(
        self, client: str, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._pass(client).wait()
        host, _, port = self.upstream.rpartition(":")
        from_broker, to_broker = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump_requests(client, first, reader, to_broker, writer))
                both.create_task(self._pump_responses(client, from_broker, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            to_broker.close()

    async def _pump_requests(
        self,
        client: str,
        request: bytes,
        reader: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        to_client: asyncio.StreamWriter,
    ) -> None:
        while True:
            api_key, *_ = HEADER.unpack_from(request)
            caught = self._caught.get((client, api_key))
            if caught is None:
                await _send(request, to_broker)
            elif caught.respond is not None:
                await _send(caught.respond(request), to_client)
            if caught is not None:
                caught.one.set()
            request = await _request(reader)
            await self._pass(client).wait()

    async def _pump_responses(
        self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            data = await reader.read(CHUNK)
            await self._pass(client).wait()
            if not data:
                raise ConnectionResetError  # the broker has closed: both end
            writer.write(data)
            await writer.drain()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> bytes:
    """The next request, without its size. Raises asyncio.IncompleteReadError at the end."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


async def _send(frame: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(len(frame).to_bytes(4) + frame)
    await writer.drain()
