"""A proxy between clients and a Kafka that records their traffic.

Clients connect to the proxy as their bootstrap server. Responses that name brokers name ports of
the proxy instead, one for each broker, so all connections come through it. ApiVersions names only
the APIs and versions that the proxy can decode.

A frame is recorded before it is forwarded. At most one frame in each direction of a connection is
in memory; a client or broker that does not read holds up its own connection only.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from kohort.errors import KohortError
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import API_NAMES, known_versions
from kohort.recording.advertised_addresses import Address, has_addresses, with_addresses
from kohort.recording.frames import (
    API_VERSIONS,
    RequestHead,
    decode_response,
    response_body_at,
    with_body,
)
from kohort.recording.recorder import Recorder
from kohort.recording.recording_file import RecordingError

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""Bytes of a request or response; larger ones close the connection."""
CONNECT_TIMEOUT_S: Final = 10.0
_SIZE_BYTES: Final = 4


class Proxy:
    """Listens and forwards in a `with` block; `recorder` is closed by its owner."""

    def __init__(
        self,
        listen: Address,
        brokers: tuple[Address, ...],
        recorder: Recorder,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`brokers` are bootstrap servers; `tls` is for connections to brokers.

        A client that authenticates by SASL does so with the broker.
        """
        self._listen = listen
        self._brokers = brokers
        self.recorder = recorder
        self._tls = tls
        self._servers: dict[Address | None, asyncio.Server] = {}
        """Listeners by the broker to which they forward; None: the bootstrap servers."""
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the file cannot be written any more; the proxy is useless then."""

    async def __aenter__(self) -> Self:
        """Listen. Raises KohortError if the address cannot be used."""
        host, port = self._listen
        try:
            self._servers[None] = await self._serve(host, port, None, None)
        except OSError as error:
            raise KohortError(f"cannot listen on {host}:{port}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.failure.done():
            self.failure.cancel()

    @property
    def address(self) -> Address:
        """The address for clients."""
        host, port, *_ = self._servers[None].sockets[0].getsockname()
        return host, port

    async def _serve(
        self, host: str, port: int, node: int | None, broker: Address | None
    ) -> asyncio.Server:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(forward(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._forward(reader, writer, node, broker)
            except RecordingError as error:
                if not self.failure.done():
                    self.failure.set_result(str(error))
            finally:
                writer.close()

        return await asyncio.start_server(accept, host, port)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        node: int | None,
        broker: Address | None,
    ) -> None:
        upstream = await self._connect(broker)
        if upstream is None:
            return
        connection = _ProxiedConnection(self, self.recorder, (reader, writer), upstream, node)
        try:
            await connection.run()
        finally:
            upstream[1].close()

    async def _connect(
        self, broker: Address | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to a broker, None if none can be reached: the client is told as much."""
        for host, port in self._brokers if broker is None else (broker,):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(host, port, ssl=self._tls)
        return None

    async def address_for(self, node: int, broker: Address, host: str) -> Address:
        """The address by which a client that reaches the proxy at `host` reaches a broker."""
        async with self._opening:
            if broker not in self._servers:
                self._servers[broker] = await self._serve(self._listen[0], 0, node, broker)
        return host, self._servers[broker].sockets[0].getsockname()[1]


class _ProxiedConnection:
    """A client and its broker."""

    def __init__(
        self,
        proxy: Proxy,
        recorder: Recorder,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        node: int | None,
    ) -> None:
        self._proxy = proxy
        self._recorder = recorder
        self._client = client
        self._broker = broker
        self._number = recorder.opened(node)
        self._host: str = client[1].get_extra_info("sockname")[0]

    async def run(self) -> None:
        """Forward until one side closes. Raises RecordingError."""
        requests = asyncio.create_task(self._copy(self._client[0], self._broker[1], self._request))
        responses = asyncio.create_task(
            self._copy(self._broker[0], self._client[1], self._response)
        )
        try:
            await asyncio.wait((requests, responses), return_when=asyncio.FIRST_COMPLETED)
            by_server = responses.done() and not requests.done()
            for task in (requests, responses):
                if task.done():
                    task.result()
            self._recorder.closed(self._number, by_server=by_server)
        finally:
            requests.cancel()
            responses.cancel()
            await asyncio.gather(requests, responses, return_exceptions=True)

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Callable[[bytes], Any],
    ) -> None:
        """Forward frames until the end. Raises RecordingError."""
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big", signed=True)
                if not 0 <= size <= MAX_FRAME_BYTES:
                    return
                frame = await handle(await reader.readexactly(size))
                writer.write(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
                await writer.drain()

    async def _request(self, frame: bytes) -> bytes:
        self._recorder.request(self._number, frame)
        return frame

    async def _response(self, frame: bytes) -> bytes:
        head = self._recorder.awaiting_response(self._number)
        if head is not None and (
            head.api_key == API_VERSIONS or has_addresses(head.api_key, head.version)
        ):
            with suppress(MalformedError):
                frame = await self._rewritten(frame, head)
        self._recorder.response(self._number, frame)
        return frame

    async def _rewritten(self, frame: bytes, head: RequestHead) -> bytes:
        message = decode_response(frame, head.api_key, head.version)
        if head.api_key == API_VERSIONS:
            new = _with_known_apis(message)
        else:
            new = await with_addresses(
                message, lambda node, broker: self._proxy.address_for(node, broker, self._host)
            )
        if new is message:
            return frame
        return with_body(frame, response_body_at(frame, head.api_key, head.version), new)


def _with_known_apis(message: Any) -> Any:
    """An ApiVersions response with only the APIs and versions that can be decoded."""
    known = []
    for api in message.api_keys:
        if api.api_key in API_NAMES:
            lowest, highest = known_versions(api.api_key)
            first, last = max(api.min_version, lowest), min(api.max_version, highest)
            if first <= last:
                known.append(replace(api, min_version=first, max_version=last))
    return replace(message, api_keys=tuple(known))
