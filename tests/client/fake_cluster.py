"""Brokers that say what a test tells them to, on real sockets: what no well-behaved server would
do.

async with FakeCluster(nodes=2, topics={"orders": 3}) as fake:
    fake.brokers[0].on("fetch", lambda request: HANG)
    fake.lead("orders", 0, node=1, epoch=5)

ApiVersions, Metadata and FindCoordinator are answered from what the cluster knows unless a test
answers them itself. An answer is a mapping of fields, HANG (none, ever), HANG_UP (the connection
closes), or bytes that are sent as they are.
"""

import asyncio
import struct
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, Self
from uuid import UUID, uuid4

from kio.serial import entity_reader

from kohort.client.config import ClientConfig
from kohort.client.net.versions import supported_versions
from kohort.protocol.building import response
from kohort.protocol.message_classes import API_KEYS, load_request_schema
from kohort.protocol.writing import encode

HANG: Final = object()
HANG_UP: Final = object()

NAMES: Final = {key: name for name, key in API_KEYS.items()}
SERVED: Final = (
    "produce", "fetch", "list_offsets", "metadata", "find_coordinator", "heartbeat", "join_group",
    "api_versions",
    "sasl_handshake", "sasl_authenticate", "init_producer_id", "offset_for_leader_epoch",
    "offset_commit", "delete_records",
)  # fmt: skip

Answer = Any
Handler = Callable[[SimpleNamespace], Answer]


@dataclass
class Topic:
    """A topic of the cluster: leader and epoch by partition."""

    leaders: dict[int, tuple[int, int]]
    id: UUID = field(default_factory=uuid4)


class FakeBroker:
    """One node. `requests` has what came, as (API, kio's request)."""

    def __init__(self, cluster: "FakeCluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.requests: list[tuple[str, Any]] = []
        self.versions = {name: supported_versions(name) for name in SERVED}
        self.connections = 0
        self.ssl: Any = None
        self._handlers: dict[str, Handler] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def on(self, api: str, handler: Handler | Mapping[str, Any]) -> None:
        """Answer that API so from now on."""
        self._handlers[api] = handler if callable(handler) else lambda _request: handler

    def asked(self, api: str) -> list[Any]:
        """The requests of that API."""
        return [request for name, request in self.requests if name == api]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.ssl)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close its port and all connections; it may be started again."""
        if self._server is not None:
            self._server.close()
            self.hang_up()
            await asyncio.sleep(0)

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                answer = await self._answer(await reader.readexactly(size))
                if answer is HANG_UP:
                    return
                if answer is not HANG:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, frame: bytes) -> Any:
        key, version, number, length = struct.unpack_from(">hhih", frame)
        name = NAMES[key]
        least, most = self.versions.get(name, (0, -1))
        if not least <= version <= most:
            assert name == "api_versions", f"{name} v{version} is not offered"
            return self._frame(key, 0, number, error_code=35, api_keys=self._api_keys())
        schema = load_request_schema(key, version)
        at = 10 + max(length, 0) + (1 if schema.__flexible__ else 0)
        request, _ = entity_reader(schema)(frame, at)
        self.requests.append((name, request))
        handler = self._handlers.get(name) or self._by_default(name)
        answer = handler(SimpleNamespace(body=request, version=version))
        if asyncio.iscoroutine(answer):
            answer = await answer
        return (
            self._frame(key, version, number, **answer) if isinstance(answer, Mapping) else answer
        )

    def _frame(self, key: int, version: int, number: int, **fields: Any) -> bytes:
        body = encode(response(key, version, **fields))
        flexible = (
            key != API_KEYS["api_versions"] and load_request_schema(key, version).__flexible__
        )
        head = struct.pack(">i", number) + (b"\0" if flexible else b"")
        return struct.pack(">i", len(head) + len(body)) + head + body

    def _by_default(self, name: str) -> Handler:
        match name:
            case "api_versions":
                return self._api_versions
            case "metadata":
                return lambda request: self.cluster.metadata(request.body)
            case "find_coordinator":
                return lambda request: self.cluster.coordinators(request)
        raise AssertionError(f"the test did not say what {name} is answered with")

    def _api_versions(self, request: SimpleNamespace) -> dict[str, Any]:
        cluster_id = getattr(request.body, "cluster_id", None)
        if cluster_id is None:
            return {"api_keys": self._api_keys()}
        is_expected = (cluster_id, request.body.node_id) == (self.cluster.id, self.node_id)
        return {"api_keys": self._api_keys()} if is_expected else {"error_code": 129}

    def _api_keys(self) -> list[dict[str, int]]:
        return [
            {"api_key": API_KEYS[name], "min_version": least, "max_version": most}
            for name, (least, most) in self.versions.items()
        ]


class FakeCluster:
    """Some brokers and topics."""

    def __init__(self, nodes: int = 1, topics: Mapping[str, int] | None = None) -> None:
        self.brokers = [FakeBroker(self, number) for number in range(nodes)]
        self.alive = list(self.brokers)
        """Those that metadata tells of."""
        self.topics = {
            name: Topic({index: (index % nodes, 0) for index in range(count)})
            for name, count in (topics or {}).items()
        }
        self.coordinator = 0
        self.id = "fake"
        """The cluster's id."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for broker in self.brokers:
            await broker.start()
            self._stack.push_async_callback(broker.stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def config(self, **options: Any) -> ClientConfig:
        """Leads to all brokers, with short pauses."""
        defaults: dict[str, Any] = {
            "bootstrap": [broker.address for broker in self.brokers],
            "request_timeout_ms": 2_000,
            "default_api_timeout_ms": 2_000,
            "retry_backoff_ms": 2,
            "retry_backoff_max_ms": 5,
        }
        return ClientConfig(**(defaults | options))

    def lead(self, topic: str, partition: int, *, node: int, epoch: int) -> None:
        """Have another leader."""
        self.topics[topic].leaders[partition] = node, epoch

    def on(self, api: str, handler: Handler | Mapping[str, Any]) -> None:
        """Have every broker answer so."""
        for broker in self.brokers:
            broker.on(api, handler)

    def asked(self, api: str) -> list[Any]:
        """The requests of that API to all brokers."""
        return [request for broker in self.brokers for request in broker.asked(api)]

    def metadata(self, request: Any) -> dict[str, Any]:
        """The answer to a Metadata request."""
        wanted = None if request.topics is None else [topic.name for topic in request.topics]
        names = list(self.topics) if wanted is None else wanted
        return {
            "brokers": [
                {"node_id": each.node_id, "host": "127.0.0.1", "port": each.port}
                for each in self.alive
            ],
            "cluster_id": self.id,
            "controller_id": 0,
            "topics": [self._topic(name) for name in names],
        }

    def _topic(self, name: str) -> dict[str, Any]:
        topic = self.topics.get(name)
        if topic is None:
            return {"error_code": 3, "name": name, "topic_id": None}
        partitions = [
            {
                "partition_index": index,
                "leader_id": node,
                "leader_epoch": epoch,
                "replica_nodes": [node],
            }
            for index, (node, epoch) in topic.leaders.items()
        ]
        return {"name": name, "topic_id": topic.id, "partitions": partitions}

    def coordinators(self, request: Any) -> dict[str, Any]:
        """The answer to a FindCoordinator request."""
        node = self.brokers[self.coordinator]
        where = {"node_id": node.node_id, "host": "127.0.0.1", "port": node.port}
        if request.version < 4:
            return where
        return {"coordinators": [{"key": key, **where} for key in request.body.coordinator_keys]}
