"""From a request to its handler: a module for each API, found when it is first needed.

A request takes one way, in steps that may end it early:

    repeated    the connection recognises the frame as its last request (`repeated_requests`)
    fast path   the handler module takes the request from its bytes, without decoding it
    decoded     `handle` of the handler module gets the decoded request

A handler module has `handle(services, exchange, request)` and may have `FAST_PATHS`, a function
for each version: `(services, exchange, frame, offset of the body) -> whether it took the request`.
A fast path that returns False has done nothing, and the request is decoded. It may leave a
`RepeatedRequest` with the exchange.

*Large requests.* The thread for heavy work decodes a frame of more than `MAX_INLINE_BYTES`. Other
connections are served meanwhile. The exception is a Produce request of a usual number of
partitions: its bytes are records, which are not decoded here. Decoded requests of more than
`MAX_CONCURRENT_BYTES` exist one at a time, because they take ten to fifty times the memory of their
bytes, and the thread frees them. One that waits for others (a parked JoinGroup, a Fetch that waits
for records) does not hold up the next.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeAlias

from kohort.protocol.apis import API_VERSIONS, APIS, BY_NAME, ENVELOPE
from kohort.protocol.messages import decode_large_request, decode_request, has_few_elements
from kohort.protocol.releasing import release
from kohort.server.net.envelopes import open_envelope
from kohort.server.net.exchange import Exchange
from kohort.server.services import Services

Handle: TypeAlias = Callable[[Services, Exchange, Any], Coroutine[Any, Any, None] | None]
FastPath: TypeAlias = Callable[[Services, Exchange, bytes, int], bool]
HandlerModule: TypeAlias = Callable[[int], ModuleType]
"""The handler module of an API key. It may import the module."""

MAX_INLINE_BYTES: Final = 16 * 1024
"""Bytes of a frame that is decoded on the loop; 16,000 empty strings take 10 ms."""
MAX_CONCURRENT_BYTES: Final = 1024 * 1024
"""Bytes of a frame that may be decoded while other decoded requests exist."""
MAX_INLINE_FREED_BYTES: Final = 128 * 1024
"""Bytes of a frame whose decoded request is freed on the loop."""
MAX_INLINE_ELEMENTS: Final = 1_000
"""Array elements of a Produce request that is decoded on the loop, whatever its bytes are."""

_PRODUCE: Final = BY_NAME["produce"].key
_FETCH: Final = BY_NAME["fetch"].key

_SERVED_API_VERSIONS: Final = APIS[API_VERSIONS]


class Dispatcher:
    """Gives every request of a server to the handler of its API."""

    def __init__(self, services: Services, handler_module: HandlerModule) -> None:
        self._services = services
        self._handler_module = handler_module
        self._handlers: dict[int, Handle] = {}
        self._fast_paths: dict[tuple[int, int], FastPath] = {}
        self._very_large = asyncio.Lock()

    def load(self, api_key: int) -> Handle:
        """Find the handler module of an API, if that has not happened yet; its `handle`."""
        if api_key not in self._handlers:
            module = self._handler_module(api_key)
            self.register(api_key, module.handle, getattr(module, "FAST_PATHS", {}))
        return self._handlers[api_key]

    def register(
        self, api_key: int, handle: Handle, fast_paths: Mapping[int, FastPath] | None = None
    ) -> None:
        """Handle an API with these functions."""
        self._handlers[api_key] = handle
        for version, fast_path in (fast_paths or {}).items():
            self._fast_paths[api_key, version] = fast_path

    def dispatch(
        self, exchange: Exchange, frame: bytes, body_at: int
    ) -> Coroutine[Any, Any, None] | None:
        """Handle the request in `frame`, or return what handles it. Raises MalformedError."""
        api_key, version = exchange.api_key, exchange.version
        fast_path = self._fast_paths.get((api_key, version))
        if fast_path is not None and fast_path(self._services, exchange, frame, body_at):
            return None
        if api_key == ENVELOPE:
            return open_envelope(self.dispatch, exchange, frame, body_at)
        handle = self._handlers.get(api_key) or self.load(api_key)
        if api_key == API_VERSIONS and not _SERVED_API_VERSIONS.serves(version):
            return handle(self._services, exchange, None)
        if len(frame) <= MAX_INLINE_BYTES:
            request = decode_request(api_key, version, frame, body_at)
        elif api_key != _PRODUCE or not has_few_elements(
            api_key, version, frame, body_at, MAX_INLINE_ELEMENTS
        ):
            return self._handle_large(handle, exchange, frame, body_at)
        elif len(frame) <= MAX_CONCURRENT_BYTES:
            request = decode_request(api_key, version, frame, body_at)
        else:  # without a copy of the records
            request = decode_large_request(api_key, version, frame, body_at)
        return handle(self._services, exchange, request)

    async def _handle_large(
        self, handle: Handle, exchange: Exchange, frame: bytes, body_at: int
    ) -> None:
        if len(frame) <= MAX_CONCURRENT_BYTES:
            request, later = await self._decode_and_begin(handle, exchange, frame, body_at)
            await self._finish(request, later, len(frame))
            return
        async with self._very_large:
            request, later = await self._decode_and_begin(handle, exchange, frame, body_at)
            if exchange.api_key != _FETCH:
                await self._finish(request, later, len(frame))
                return
        await self._finish(request, later, len(frame))

    async def _decode_and_begin(
        self, handle: Handle, exchange: Exchange, frame: bytes, body_at: int
    ) -> tuple[list[Any], Coroutine[Any, Any, None] | None]:
        decode = partial(decode_large_request, exchange.api_key, exchange.version, frame, body_at)
        request = [await self._services.heavy_work.run(decode)]
        return request, handle(self._services, exchange, request[0])

    async def _finish(
        self, request: list[Any], later: Coroutine[Any, Any, None] | None, size: int
    ) -> None:
        if later is not None:
            await later
        if size > MAX_INLINE_FREED_BYTES:
            await self._services.heavy_work.run(partial(release, request))
