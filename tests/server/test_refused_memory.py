"""What a refused request took is free as soon as its response is sent, without the collector.

The requests are those of every API in the table, large ones, with each value that is refused:
names that do not exist or are too long, numbers out of range, records that are damaged, bytes that
are cut. Servers differ in what they refuse besides: all that their ACLs, their login, their quotas
or their disk do not allow.
"""

import asyncio
import dataclasses
import logging
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from cycles import errors_in, frames_in, uncollected
from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.batches import Codec, Record, build
from kohort.protocol.framing import CONTENT
from kohort.protocol.message_classes import load_request_schema
from kohort.protocol.messages import encode
from kohort.protocol.schema import Shape, shape
from kohort.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, quota_entity
from kohort.server.broker import Broker
from kohort.server.config import Config
from live.server.worst_requests import WORST, renamed
from protocol.wire_entities import VERSIONS, name_of
from server.net.test_fuzz import load
from waiting import turns

fuzz: Any = load()

WEIGHT = 20_000
"""Bytes of a long name or value."""
NOW = 1_700_000_000_000
SESSIONS = 3_500
"""A hundred of each for most APIs, ten for Produce."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SERVERS: dict[str, dict[str, object]] = {
    "open": {},
    "without rights": {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"},
    "before login": {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
        ),
    },
    "throttled": {},
    "small requests": {"socket.request.max.bytes": 1_000},
}
NOTHING_ALLOWED = {
    PRODUCER_BYTE_RATE: 0.01,
    CONSUMER_BYTE_RATE: 0.01,
    REQUEST_PERCENTAGE: 0.000_001,
    "controller_mutation_rate": 0.000_001,
}


class Transport(fuzz.Transport):  # type: ignore[misc]
    """One that takes responses in pieces, too."""

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(each for each in pieces if isinstance(each, bytes)))

    def set_write_buffer_limits(self) -> None:
        pass


class Server:
    """A server without sockets."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.ids = {each.name: each.id for each in broker.topics.all()}
        self.sent = 0
        """Bytes so far."""

    async def session(self, *chunks: bytes) -> None:
        """One connection that sends the chunks, and is closed once there is nothing more to do."""
        transport = Transport()
        connection = self.broker.listener.listeners[0].new_connection("127.0.0.1", fuzz.SOCKET)
        assert connection is not None
        connection.connection_made(transport)
        transport.connection = connection
        for chunk in chunks:
            self.sent += len(chunk)
            for start in range(0, len(chunk), fuzz.READ_AHEAD):
                if not transport.is_closing:
                    connection.data_received(chunk[start : start + fuzz.READ_AHEAD])
            for _ in range(10):
                await asyncio.sleep(0)
            async with asyncio.timeout(60):
                while not transport.is_closing and self._is_worked_on(connection):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            transport.peer_reads()
        connection.connection_lost(None)
        await asyncio.sleep(0)

    def _is_worked_on(self, connection: Any) -> bool:
        """Whether the connection's request is in work: it is neither parked nor incomplete."""
        return not connection.is_idle and not connection._queue.is_parked

    async def settled(self) -> None:
        """Return when nothing that was begun for a request is under way."""
        await turns(100)


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[Server]:
    config = {
        "storage": "memory",
        "group.initial.rebalance.delay.ms": 0,
        "num.partitions": 2,
        "listeners": "127.0.0.1:0",
    }
    broker = Broker(Config(config | SERVERS[kind]))
    await broker.start()
    logging.disable(logging.CRITICAL)
    try:
        broker.controller.topics.create("orders", 2)
        broker.controller.topics.create("compacted", 2, {"cleanup.policy": "compact"})
        if kind == "throttled":
            broker.controller.writer.commit(
                *broker.controller.client_quotas.alter_quotas(
                    {quota_entity([("user", "ANONYMOUS")]): NOTHING_ALLOWED}
                )
            )
        yield Server(broker)
    finally:
        logging.disable(logging.NOTSET)
        await broker.close()


# Requests


@cache
def batches() -> tuple[bytes, ...]:
    return tuple(_batches())


def _batches() -> Iterator[bytes]:
    """A batch that is valid, and others that are refused."""
    value = bytes(WEIGHT)
    valid = build([Record(b"k", value, (), NOW)])
    yield valid
    yield valid[:-1] + b"\xff"  # the CRC
    yield valid[:50] + b"\1"  # it ends early
    yield valid[:16] + b"\1" + valid[17:]  # the magic of other formats
    yield build([Record(None, value, (), NOW)] * 3)  # no key
    yield build([Record(b"k", value, (), 5)])
    yield build([Record(None, value, (), NOW)] * 3, codec=Codec.ZSTD)
    yield build([Record(b"k", value, (), NOW)], producer_id=5, producer_epoch=1, base_sequence=7)
    # These are validated in another thread.
    yield build([Record(None, b"", (), NOW)] * 4_001, codec=Codec.ZSTD)
    yield build([Record(b"k", b"", (), 5)] * 4_001, codec=Codec.GZIP)
    yield value


WORDS = ("orders", "unknown", "compacted", "a\0", "x" * WEIGHT, "")
NUMBERS = (0, -1, 1, 7, 1 << 62)


def requests(api_key: int, version: int, ids: Mapping[str, UUID]) -> Iterator[bytes]:
    """Frames of requests, most of which are refused; `ids` are those of topics by name."""
    blobs = batches()
    entity_type = load_request_schema(api_key, version)
    # Each word meets each number; the blobs go round, and partitions are those of the topics.
    count = len(WORDS) * len(NUMBERS)
    if has_blobs(entity_type):
        count *= len(blobs)
    for index in range(count):
        word = WORDS[index % len(WORDS)]
        number = NUMBERS[index // len(WORDS) % len(NUMBERS)]
        blob = blobs[(index + index // (len(WORDS) * len(NUMBERS))) % len(blobs)]
        filling = Filling(word, number, blob, ids.get(word, UUID(int=5)))
        yield fuzz.framed((api_key, version), encode(filling.entity(entity_type)))


def has_blobs(entity_type: Any) -> bool:
    shapes = [shape(each) for each in dataclasses.fields(entity_type)]
    return any(
        has_blobs(each.inner) if each.is_struct else each.kafka_type == "records" for each in shapes
    )


@dataclasses.dataclass
class Filling:
    """The values of a request's fields."""

    word: str
    number: int
    blob: bytes
    topic_id: UUID

    def entity(self, entity_type: Any) -> Any:
        fields = dataclasses.fields(entity_type)
        return entity_type(**{each.name: self.value(each.name, shape(each)) for each in fields})

    def value(self, name: str, of: Shape) -> Any:
        if of.is_array:
            return (self.one(name, of),) * 2
        return self.one(name, of)

    def one(self, name: str, of: Shape) -> Any:
        if of.is_struct:
            return self.entity(of.inner)
        number = self.number
        match of.kafka_type:
            case "string":
                return self.word
            case "bytes" | "records":
                return self.blob
            case "uuid":
                return self.topic_id
            case "bool":
                return number % 2 == 1
            case "float64":
                return float(number)
            case "error_code":
                return ErrorCode.none
            case "timedelta_i32":
                return timedelta(milliseconds=min(number, (1 << 31) - 1))
            case "timedelta_i64":
                return timedelta(milliseconds=min(number, 1 << 50))
            case "datetime_i64":
                return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number % 1_000)
            case "uint16":
                return number % 65_536
        if name in {"index", "partition", "partition_index"}:
            return number % 3
        if name == "acks":
            return -1
        largest = (1 << int(of.kafka_type.removeprefix("int")) - 1) - 1
        return min(number, largest)


def damaged(frame: bytes) -> Iterator[tuple[bytes, ...]]:
    """The chunks that a peer sends of a request it damages."""
    half = frame[: len(frame) // 2]
    yield (half,)  # and the connection is closed
    yield ((len(half) - CONTENT).to_bytes(CONTENT, "big") + half[CONTENT:],)
    yield (frame[:6] + b"\x7f\0" + frame[8:],)  # a version that does not exist
    yield ((1 << 30).to_bytes(CONTENT, "big") + frame,)  # too large
    yield (b"\x16\x03\x01\x02" + frame,)  # TLS to a port without


NEWEST = [(api.key, api.max_version) for api in APIS.values()]


def all_sessions(
    cases: Iterable[tuple[int, int]], ids: Mapping[str, UUID]
) -> Iterator[tuple[bytes, ...]]:
    """The chunks of one connection after the other."""
    for case in cases:
        frames = tuple(requests(*case, ids))
        for frame in frames:
            yield (frame,)
        for frame in frames[:1]:
            yield from damaged(frame)


def large_in(garbage: Sequence[object]) -> list[str]:
    """Garbage that is as large as a part of a request."""
    return [
        f"{type(each).__name__} of {sys.getsizeof(each)} bytes"
        for each in garbage
        if sys.getsizeof(each) > WEIGHT // 2
    ]


def kept_in(garbage: Sequence[object]) -> str:
    """What is wrong about the garbage, in lines."""
    ours = {type(each).__name__ for each in garbage if type(each).__module__.startswith("kohort")}
    return "\n".join([*errors_in(garbage), *frames_in(garbage), *large_in(garbage), *sorted(ours)])


@pytest.mark.parametrize("kind", SERVERS)
async def test_no_refused_request_is_left_to_the_collector(kind: str) -> None:
    async with serving(kind) as server:
        with uncollected() as garbage:
            for chunks in all_sessions(NEWEST, server.ids):
                await server.session(*chunks)
            await server.settled()
        assert kept_in(garbage) == ""


@pytest.mark.long
@pytest.mark.parametrize("case", VERSIONS, ids=name_of)
async def test_the_same_again_and_again(case: tuple[int, int]) -> None:
    async with serving("open") as server:
        sessions = tuple(all_sessions([case], server.ids))
        with uncollected() as garbage:
            for _ in range(SESSIONS // len(sessions)):
                for chunks in sessions:
                    await server.session(*chunks)
            await server.settled()
        assert kept_in(garbage) == ""


@pytest.mark.parametrize("kind", ["throttled", "without rights"])
async def test_no_large_request_is_left_to_the_collector(kind: str) -> None:
    async with serving(kind) as server:
        with uncollected() as garbage:
            for build_request in (each for kinds in WORST.values() for each in kinds.values()):
                await server.session(build_request(1 << 16))
            await server.settled()
        assert kept_in(garbage) == ""


@pytest.mark.long
@pytest.mark.parametrize("api", WORST)
@pytest.mark.parametrize("kind", ["throttled", "without rights"])
async def test_a_large_request_again_and_again(kind: str, api: str) -> None:
    async with serving(kind) as server:
        sent = [build_request(1 << 18) for build_request in WORST[api].values()]
        with uncollected() as garbage:
            for turn in range(100):
                for each in sent:
                    await server.session(renamed(each, turn % 8))
            await server.settled()
        assert kept_in(garbage) == ""
