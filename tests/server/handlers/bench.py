"""Handlers without a network: requests go in as kio's classes, answers come out as kio's classes.

    async def test_x(bench):
        answer = await bench.ask("metadata", 12, topics=[{"name": "orders"}])

Requests and answers pass through their bytes on the way, so a test sees what a client would.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from kio.serial import entity_reader

from kohort.log.memory import MemoryDirectory
from kohort.protocol.apis import BY_NAME
from kohort.protocol.batches import Record, build
from kohort.protocol.building import request
from kohort.protocol.error_codes import errors_in
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import decode_request, encode
from kohort.quotas import ClientQuotas
from kohort.runtime.transactions import TransactionVerifier
from kohort.security import Peer
from kohort.server.authorization import access_of
from kohort.server.cluster.nodes import LocalNodes, Nodes
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.server.config.config import Config
from kohort.server.controller import open_controller
from kohort.server.fetch import FetchSessions
from kohort.server.logging import AuditLog
from kohort.server.metadata import MetadataImage
from kohort.server.net.exchange import Body
from kohort.server.refused_batches import RefusedBatches
from kohort.server.replicas import Topics
from kohort.server.services import Services
from kohort.server.throttling import Throttling
from kohort.server.tls import Certificates
from kohort.types import Instant, Timestamp
from server.faulty_logs import FaultyDirectory
from server.identities import peer

START = Timestamp(1_700_000_000_000)


class HungUpError(Exception):
    """The handler closed the connection."""


NO_ANSWER = object()
"""What `ask` returns for a request that has no answer."""


class FakeExchange:
    """An exchange whose answer is kept: decoded in `outcome`, as bytes in `packed`."""

    def __init__(
        self,
        api_key: int,
        version: int,
        *,
        client_id: str = "test",
        connection: Hashable = "c1",
        asked_by: Peer | None = None,
        size: int = 0,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = 7
        self.client_id = client_id
        self.peer = asked_by or peer()
        self.client_host = f"/{self.peer.host}"
        self.connection = connection
        self.largest_response: int | None = None
        self.size = size
        self.throttle_ms = 0
        self.outcome: Any = None
        self.packed: bytes | None = None
        self.answered = asyncio.Event()

    def respond(self, entity: Any) -> None:
        self.respond_encoded(encode(entity), errors_in(entity))

    def respond_encoded(self, body: Body, errors: Iterable[int] = ()) -> None:
        self.packed = body if isinstance(body, bytes) else b"".join(body)
        read = entity_reader(load_response_schema(self.api_key, self.version))
        entity, size = read(self.packed, 0)
        assert size == len(self.packed), "bytes behind the answer"
        assert {error for error in errors if error} == errors_in(entity), (
            "errors that are not counted"
        )
        self._finish(entity)

    def throttle(self, wait_ms: int) -> None:
        self.throttle_ms = max(self.throttle_ms, wait_ms)

    def callback(self, function: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
        return partial(function, self, *arguments)

    def end_without_response(self) -> None:
        self._finish(NO_ANSWER)

    def close_with_reason(self, why: str) -> None:
        self._finish(HungUpError(why))

    def _finish(self, outcome: Any) -> None:
        assert not self.answered.is_set(), "answered twice"
        self.outcome = outcome
        self.answered.set()


class Unread(FakeExchange):
    """An exchange that keeps the pieces of its response in `outcome`, and does not decode them."""

    def respond_encoded(self, body: Body, errors: Iterable[int] = ()) -> None:
        self._finish(body)


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ms: int = START
        self.ahead_ms = 0
        """How far the wall clock was set ahead."""

    def now(self) -> Instant:
        return Instant(self.ms)

    def timestamp(self) -> Timestamp:
        return Timestamp(self.ms + self.ahead_ms)


def alone(
    topics: Topics,
    rack: str | None = None,
    node_id: int = 0,
    kind: type[LocalNodes] = LocalNodes,
) -> LocalNodes:
    """The nodes of a server without others."""
    return kind(topics, MetadataImage(), count=1, index=0, first_id=node_id, rack=rack)


class HandlerBench:
    """A server's services in memory, without a listener; `groups` and `transactions` are whatever a
    test puts there.
    """

    groups: Any = None
    transactions: Any = None

    def __init__(self, **settings: object) -> None:
        """`settings` are broker configs with underscores for dots."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = Config({"storage": "memory", **given})
        self.clock = HandClock()
        self.peer = peer()
        """Who asks."""
        self.audit: AuditLog | None = None
        self.nodes: Nodes | None = None
        self.verifier: TransactionVerifier | None = None
        """Who asks the coordinators of other nodes, None if there are none."""
        """None: one node."""
        self.directory: Any = FaultyDirectory(MemoryDirectory())
        self.restart()

    def restart(self) -> None:
        """Start again on the same logs, as after a crash: nothing is flushed or closed."""
        self.controller = open_controller(self.directory, self.config, self.clock.timestamp)
        self.throttling = Throttling(ClientQuotas(self.controller.image.quotas), self.clock)
        self.fetch_sessions = FetchSessions(
            self.config["max.incremental.fetch.session.cache.slots"]
        )
        self.refused_batches = RefusedBatches()

    @property
    def topics(self) -> Topics:
        return self.controller.replicas.topics

    @property
    def services(self) -> Services:
        """What handlers get."""
        return Services(
            config=self.config,
            certificates=Certificates(self.config),
            topics=self.topics,
            controller=self.controller,
            groups=self.groups,
            transactions=self.transactions,
            verifier=self.verifier or self.transactions,
            markers=PartitionMarkers(self.topics, self.groups, self.clock, waits_for_disk=False),
            fetch_sessions=self.fetch_sessions,
            throttling=self.throttling,
            clock=self.clock,
            new_id=lambda: "an-id",
            nodes=self.nodes or alone(self.topics, self.config["broker.rack"]),
            node_id=0,
            cluster_id=self.controller.image.cluster_id,
            access=access_of(self.config, self.controller.image.acls, self.audit),
            refused_batches=self.refused_batches,
        )

    def begin(
        self, api: str, version: int, /, **fields: Any
    ) -> tuple[FakeExchange, "asyncio.Task[None] | None"]:
        """Give a request to its handler; the task is what waits for the answer, if it was not
        answered at once.
        """
        api_key = BY_NAME[api].key
        content = encode(request(api_key, version, **fields))
        decoded = decode_request(api_key, version, content)
        exchange = FakeExchange(api_key, version, asked_by=self.peer, size=len(content))
        later = import_module(f"kohort.server.handlers.{api}").handle(
            self.services, exchange, decoded
        )
        return exchange, None if later is None else asyncio.ensure_future(later)

    async def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """The answer as kio's class, or NO_ANSWER. Raises HungUpError if the connection is closed
        instead.
        """
        exchange, task = self.begin(api, version, **fields)
        if task is not None:
            await task
        await asyncio.wait_for(exchange.answered.wait(), 60)
        if isinstance(exchange.outcome, HungUpError):
            raise exchange.outcome
        return exchange.outcome

    def handling(self, api: str, version: int, /, **fields: Any) -> Coroutine[Any, Any, None]:
        """What handles a request, which is decoded before, while the answer is not: to measure."""
        api_key = BY_NAME[api].key
        decoded = decode_request(api_key, version, encode(request(api_key, version, **fields)))
        handle = import_module(f"kohort.server.handlers.{api}").handle

        async def run() -> None:
            later = handle(self.services, Unread(api_key, version, asked_by=self.peer), decoded)
            if later is not None:
                await later

        return run()

    def fill(
        self,
        topic: str,
        partition: int = 0,
        *,
        records: int = 1,
        size: int = 10,
        timestamp: int = START,
    ) -> None:
        """Append one batch of `records` records with values of `size` bytes."""
        log = self.topics.log(topic, partition)
        assert log is not None
        log.append(batch_of(*[b"x" * size] * records, timestamp=timestamp), self.clock.timestamp())


def batch_of(
    *values: bytes | None, key: bytes | None = None, timestamp: int = START, **header: Any
) -> bytes:
    """A batch with these values; `header` as for `batches.build`."""
    return build([Record(key, value, (), timestamp) for value in values], **header)
