"""Log of the requests of an embedded server and their responses, as readable values.

The latest `MAX_EXCHANGES` are kept as bytes, at most 32 MiB, and decoded when they are read.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, cast
from uuid import UUID

from kohort.protocol.apis import APIS
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import decode_request
from kohort.protocol.reading import response_reader
from kohort.runtime.clock import Clock
from kohort.server.net import Connection, Exchange

MAX_EXCHANGES: Final = 1_000
MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Bytes of a message whose values are kept."""
WAITING: Final = "waiting"
_CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedExchange:
    """One request and its response."""

    number: int
    """Number of the request on its server, from 1."""
    timestamp: int
    """Server's time at which it began to be handled, in ms since the epoch."""
    client_id: str
    api: str
    """Kafka's name of the API; "" for one that the server does not know."""
    version: int
    request: Mapping[str, object] | None
    """Fields of Kafka's schema in snake case; None for a message beyond 16 KiB or a malformed one.
    """
    outcome: str
    """waiting | responded | no response (Produce with acks=0) | cut | closed"""
    response: Mapping[str, object] | None
    """As `request`; None without a response."""
    duration_ms: int
    """Server's time until the response, or until now."""

    def __str__(self) -> str:
        return f"{self.client_id}: {self.api} v{self.version} {self.outcome}"


@dataclass(slots=True)
class Entry:
    """A request while it is handled, and after it."""

    number: int
    exchange: Exchange
    frame: bytes | None
    """None if it is too large."""
    body_at: int
    began: int
    clock: Clock
    ended: int | None = None
    outcome: str = WAITING
    response: bytes | None = None

    def end(self, outcome: str, response: bytes | None = None) -> None:
        """The request has ended."""
        self.ended, self.outcome = self.clock.timestamp(), outcome
        if response is not None and len(response) <= MAX_MESSAGE_BYTES:
            self.response = response


class ExchangeLog:
    """The latest requests. It is used on the loop of the server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._entries: deque[Entry] = deque(maxlen=MAX_EXCHANGES)

    def add(self, exchange: Exchange, frame: bytes, body_at: int) -> Entry:
        """Note a request that is about to be handled."""
        self._count += 1
        kept = frame if len(frame) <= MAX_MESSAGE_BYTES else None
        entry = Entry(self._count, exchange, kept, body_at, self._clock.timestamp(), self._clock)
        self._entries.append(entry)
        return entry

    def read(self) -> Iterator[LoggedExchange]:
        """The exchanges in the order in which their requests began to be handled."""
        for entry in tuple(self._entries):
            yield self._decoded(entry)

    def _decoded(self, entry: Entry) -> LoggedExchange:
        exchange, outcome = entry.exchange, entry.outcome
        if outcome == WAITING and not cast("Connection", exchange.connection).is_open:
            outcome = _CLOSED
        api = APIS.get(exchange.api_key)
        ended = self._clock.timestamp() if entry.ended is None else entry.ended
        return LoggedExchange(
            number=entry.number,
            timestamp=entry.began,
            client_id=exchange.client_id,
            api="" if api is None else api.kafka_name,
            version=exchange.version,
            request=_request_values(entry),
            outcome=outcome,
            response=_response_values(entry),
            duration_ms=ended - entry.began,
        )


def decoded_request(exchange: Exchange, frame: bytes, body_at: int) -> Any:
    """The request; None if the server refuses it as malformed, or does not know it."""
    api = APIS.get(exchange.api_key)
    if api is None or not api.serves(exchange.version):
        return None
    try:
        return decode_request(exchange.api_key, exchange.version, frame, body_at)
    except MalformedError:
        return None


def _request_values(entry: Entry) -> Mapping[str, object] | None:
    if entry.frame is None:
        return None
    request = decoded_request(entry.exchange, entry.frame, entry.body_at)
    return None if request is None else _values(request)


def _response_values(entry: Entry) -> Mapping[str, object] | None:
    if entry.response is None:
        return None
    exchange = entry.exchange
    read = response_reader(load_response_schema(exchange.api_key, exchange.version))
    try:
        return _values(read(entry.response, 0))
    except MalformedError:  # an ApiVersions response in version 0 (KIP-511)
        return None


def _values(entity: Any) -> dict[str, object]:
    return {field.name: _value(getattr(entity, field.name)) for field in fields(entity)}


def _value(value: Any) -> object:
    """A field as a plain value: errors by name, times in ms."""
    if is_dataclass(value):
        return _values(value)
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    if isinstance(value, IntEnum):
        return value.name.upper()
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1_000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000)
    if isinstance(value, memoryview):
        return bytes(value)
    return str(value) if isinstance(value, UUID) else value
