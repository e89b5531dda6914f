"""A listener with fake services behind it, and peers that speak to it over real sockets.

async with Wire() as wire:
    wire.groups.answers[Heartbeat] = HeartbeatResponse()
    peer = await wire.peer()
    assert (await peer.ask("heartbeat", 4, group_id="g", ...)).error_code == 0
"""

import asyncio
import struct
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

from kio.serial import entity_reader

from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.requests import Heartbeat
from kohort.protocol.apis import API_VERSIONS, BY_NAME
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import encode, request
from kohort.quotas import ClientQuotas, QuotaTable
from kohort.runtime.clock import SystemClock
from kohort.security import SecurityProtocol
from kohort.server.addresses import Address
from kohort.server.cluster.nodes import LocalNodes
from kohort.server.config import Config, ListenerConfig
from kohort.server.fetch import FetchSessions
from kohort.server.handlers import handler_module
from kohort.server.metadata import INTERNAL, MetadataImage
from kohort.server.net import ConnectionLimits, Dispatcher, Listeners, Protection, Sasl
from kohort.server.services import Services, random_ids
from kohort.server.throttling import Throttling
from kohort.server.tls import Certificates

TOPIC_ID = UUID("84176e6c-7b33-4061-89b0-e281970c9d08")


class FakeGroups:
    """Keeps what was submitted; answers it by its type, or leaves it parked."""

    def __init__(self) -> None:
        self.submitted: list[Any] = []
        self.answers: dict[type, Any] = {}
        """Response, or function of the request that gives one, by request type."""
        self.parked: list[Any] = []
        self.closed: list[Hashable] = []

    def is_elsewhere(self, partition: int) -> bool:
        return False

    def submit(self, request: Any) -> None:
        self.submitted.append(request)
        answer = self.answers.get(type(request))
        if answer is None:
            self.parked.append(request)
        else:
            request.on_response(answer(request) if callable(answer) else answer)

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> Any:
        request = Heartbeat(
            on_response=None,
            group=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
        )
        self.submitted.append(request)
        answer = self.answers[Heartbeat]
        return (answer(request) if callable(answer) else answer).error

    def heartbeats_of(self, *member: Any) -> Callable[[], Any]:
        return partial(self.heartbeat, *member)

    def steady_heartbeat(self, request: SteadyHeartbeat) -> int | None:
        self.submitted.append(request)
        interval_ms: int | None = self.answers.get(SteadyHeartbeat)
        return interval_ms

    def steady_heartbeats_of(self, member: SteadyHeartbeat) -> Callable[[], int | None]:
        return partial(self.steady_heartbeat, member)

    def connection_closed(self, connection: Hashable) -> None:
        self.closed.append(connection)


class FakeTopics:
    """One topic, "orders", with three partitions, and those of the coordinators."""

    def __init__(self) -> None:
        partitions = (SimpleNamespace(leader_epoch=0),) * 3
        self.orders = SimpleNamespace(name="orders", id=TOPIC_ID, partitions=partitions)
        self._internal = {name: SimpleNamespace(partitions=partitions) for name in INTERNAL}

    def get(self, name: str) -> Any:
        return self.orders if name == "orders" else self._internal.get(name)

    def all(self) -> Any:
        return (self.orders,)

    def by_id(self, topic_id: UUID) -> Any:
        return self.orders if topic_id == TOPIC_ID else None


class Peer:
    """A client that sends what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._ids = iter(range(1, 1 << 30))

    def frame(
        self, api: str, version: int, body: bytes, *, client_id: str | None = "test"
    ) -> bytes:
        """A request's bytes, with the next correlation id."""
        head = struct.pack(">hhi", BY_NAME[api].key, version, next(self._ids))
        text = (
            b"\xff\xff"
            if client_id is None
            else struct.pack(">h", len(client_id)) + client_id.encode()
        )
        tags = b"\0" if BY_NAME[api].flexible(version) else b""
        content = head + text + tags + body
        return struct.pack(">i", len(content)) + content

    def request(self, api: str, version: int, /, **fields: Any) -> bytes:
        """The same from the request's fields."""
        return self.frame(api, version, encode(request(BY_NAME[api].key, version, **fields)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """The decoded answer to one request."""
        self.send(self.request(api, version, **fields))
        return await self.answer(api, version)

    async def answer(self, api: str, version: int) -> Any:
        return self.decode(api, version, await self.content())

    def decode(self, api: str, version: int, content: bytes) -> Any:
        key = BY_NAME[api].key
        start = 5 if BY_NAME[api].flexible(version) and key != API_VERSIONS else 4
        entity, size = entity_reader(load_response_schema(key, version))(content, start)
        assert start + size == len(content), "bytes behind the answer"
        return entity

    async def content(self) -> bytes:
        """The next answer without its size; asyncio.IncompleteReadError if the server closed."""
        async with asyncio.timeout(60):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            return await self.reader.readexactly(size)

    async def correlation_id(self) -> int:
        """Of the next answer."""
        return struct.unpack(">i", (await self.content())[:4])[0]

    async def closed(self) -> bytes:
        """What came until the server closed the connection."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(-1)
            except ConnectionResetError:
                return b""

    async def is_silent(self, seconds: float = 0.05) -> bool:
        """Whether nothing comes."""
        try:
            async with asyncio.timeout(seconds):
                return not await self.reader.read(1)
        except TimeoutError:
            return True

    def leave(self) -> None:
        self.writer.transport.abort()


def listener(port: int = 0) -> ListenerConfig:
    """A listener on this machine, which clients know as broker.test:9092."""
    return ListenerConfig(
        name="PLAINTEXT",
        security_protocol=SecurityProtocol.PLAINTEXT,
        address=Address("127.0.0.1", port),
        advertised=Address("broker.test", 9092),
    )


class Wire:
    """A listener in the running loop."""

    def __init__(self, groups: Any = None, sasl: Sasl | None = None, **limits: Any) -> None:
        """`groups` are fake ones by default; the rest are `ConnectionLimits`."""
        self._sasl = sasl
        self.groups: Any = FakeGroups() if groups is None else groups
        topics: Any = FakeTopics()
        nothing: Any = None
        self.quotas = QuotaTable()
        self.throttling = Throttling(ClientQuotas(self.quotas), SystemClock())
        config = Config({"storage": "memory"})
        services = Services(
            config=config,
            certificates=Certificates(config),
            topics=topics,
            controller=nothing,
            groups=self.groups,
            transactions=nothing,
            markers=nothing,
            verifier=nothing,
            fetch_sessions=FetchSessions(slots=10),
            throttling=self.throttling,
            clock=SystemClock(),
            new_id=random_ids().__next__,
            nodes=LocalNodes(topics, MetadataImage(), count=1, index=0, first_id=0, rack=None),
            node_id=0,
            cluster_id="cluster",
        )
        self.dispatcher = Dispatcher(services, handler_module)
        self.listener = Listeners(ConnectionLimits(**limits))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.host, self.port = await self.listener.bind(listener(), Protection(sasl=self._sasl))
        self._stack.push_async_callback(self.listener.close, 1.0)
        self.listener.serve(self.dispatcher.dispatch, self.throttling)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(self.host, self.port))
        self._stack.callback(peer.leave)
        return peer

    def handle(self, api: str, function: Callable[[Any, Any, Any], Any]) -> None:
        """Let `function` handle an API."""
        self.dispatcher.register(BY_NAME[api].key, function)

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the loop run until something is so."""
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
