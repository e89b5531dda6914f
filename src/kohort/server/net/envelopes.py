"""Requests that another node sends on for its client (KIP-590): Envelope (58).

The request inside is handled as if its client had come here: by its principal and its host.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.log.stores import loaded
from kohort.protocol.apis import ENVELOPE
from kohort.protocol.framing import CONTENT, MalformedError
from kohort.protocol.messages import encode, frame_head, read_header, response
from kohort.protocol.packing import read_varint
from kohort.protocol.throttle_time import with_throttle_time
from kohort.security import KafkaPrincipal, Peer
from kohort.server.net.exchange import Body, Exchange
from kohort.server.net.login import Login
from kohort.server.net.repeated_requests import RepeatedRequest

_SIZE: Final = bytes(CONTENT)
_FIELDS: Final = 3


def open_envelope(
    dispatch: Callable[[Exchange, bytes, int], Coroutine[Any, Any, None] | None],
    exchange: Exchange,
    envelope: bytes,
    body_at: int,
) -> Coroutine[Any, Any, None] | None:
    """Dispatch the request in an envelope, a frame with its size. Raises MalformedError.

    The request in it may be large: it is copied once.
    """
    if not exchange.peer.is_node:
        raise MalformedError(f"API key {ENVELOPE} is not served to clients")
    request, principal, host = _parts(memoryview(envelope), body_at)
    frame = b"".join((_SIZE, request))
    api_key, version, correlation_id, client_id, body_at = read_header(frame)
    if api_key == ENVELOPE:
        raise MalformedError("an envelope in an envelope")
    peer = replace(
        exchange.peer,
        principal=KafkaPrincipal.parse(str(principal, "utf-8")),
        host=str(host, "utf-8"),
    )
    inside = Exchange(_Inside(exchange, peer), api_key, version, correlation_id, client_id)
    return dispatch(inside, frame, body_at)


def _parts(envelope: memoryview, position: int) -> list[memoryview]:
    """The fields of Envelope v0 from offset `position` on: request, principal, host."""
    parts = []
    try:
        for _ in range(_FIELDS):
            size, start = read_varint(envelope, position)
            position = start + size - 1
            parts.append(envelope[start:position])
    except IndexError:
        position = len(envelope)
    if position >= len(envelope):  # tagged fields follow
        raise MalformedError("an envelope that ends too early")
    return parts


class _Inside:
    """The `RequestConnection` of a request in an envelope."""

    login: Login | None = None

    def __init__(self, envelope: Exchange, peer: Peer) -> None:
        self._envelope = envelope
        self.peer = peer

    @property
    def is_open(self) -> bool:
        return self._envelope.connection.is_open

    @property
    def largest_response(self) -> int | None:
        return self._envelope.largest_response

    def respond(self, exchange: Exchange, body: Body | None, errors: Iterable[int]) -> None:
        if body is None:
            self.close_with_reason("a request without a response was sent on")
            return
        if exchange.throttle_ms:
            body = with_throttle_time(
                exchange.api_key, exchange.version, body, exchange.throttle_ms
            )
        pieces = (body,) if isinstance(body, bytes) else body
        data = b"".join(loaded(piece, len(piece)) for piece in pieces)
        head = frame_head(exchange.api_key, exchange.version, exchange.correlation_id, len(data))
        envelope = response(
            ENVELOPE,
            self._envelope.version,
            response_data=head[CONTENT:] + data,
            error_code=ErrorCode.none,
        )
        self._envelope.respond_encoded(encode(envelope), errors)

    def cache_request(self, request: RepeatedRequest) -> None:
        """No request in an envelope is repeated."""

    def when_closed(self, function: Callable[[Any], None]) -> None:
        self._envelope.when_connection_closes(function)

    def close_with_reason(self, why: str) -> None:
        self._envelope.close_with_reason(why)

    def fail(self, error: BaseException, exchange: Exchange | None = None) -> None:
        self._envelope.connection.fail(error, exchange)
