"""Exchanges of an embedded server, whose requests are all seen by the test kit."""

from collections.abc import Iterable, Sequence
from typing import Any, Self, cast

from kohort.log.stores import FileSlice, Records
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode, frame_head
from kohort.server.net import Connection, Exchange, RepeatedRequest
from kohort.testing.embedded.exchange_log import Entry


class ObservedExchange(Exchange):
    """An exchange whose request is dispatched again when it is repeated."""

    __slots__ = ("entry",)
    entry: Entry | None
    """Its entry in the log of exchanges."""

    @classmethod
    def of(cls, exchange: Exchange) -> Self:
        """The same exchange, of this class; the other one is not to be used any more."""
        observed = cls(
            exchange.connection,
            exchange.api_key,
            exchange.version,
            exchange.correlation_id,
            exchange.client_id,
            exchange.size,
        )
        observed.entry = getattr(exchange, "entry", None)
        return observed

    def note_end(self, outcome: str, content: bytes | None = None) -> None:
        """Note in the log how the exchange ended."""
        if self.entry is not None:
            self.entry.end(outcome, content)

    def cache_request(self, request: RepeatedRequest) -> None:
        """A connection would handle repetitions by itself."""


class CutExchange(ObservedExchange):
    """An exchange whose connection is cut instead of the response."""

    __slots__ = ()

    def cut(self) -> None:
        self.note_end("cut")
        cast("Connection", self.connection).abort()

    def respond(self, entity: Any) -> None:  # noqa: ARG002
        self.cut()

    def respond_encoded(self, body: object, errors: Iterable[int] = ()) -> None:  # noqa: ARG002
        self.cut()

    def end_without_response(self) -> None:
        self.cut()


class TruncatedExchange(ObservedExchange):
    """An exchange whose connection is closed amid the response."""

    __slots__ = ()

    def respond(self, entity: Any) -> None:
        self.respond_encoded(encode(entity), errors_in(entity))

    def respond_encoded(self, body: bytes | Sequence[Records], errors: Iterable[int] = ()) -> None:  # noqa: ARG002
        content = joined(body)
        self.note_end("cut")
        frame = frame_head(self.api_key, self.version, self.correlation_id, len(content)) + content
        cast("Connection", self.connection).send_and_close(frame[: len(frame) // 2])


def joined(body: bytes | Sequence[Records]) -> bytes:
    """The bytes of a response body."""
    pieces = (body,) if isinstance(body, bytes) else body
    return b"".join(
        piece.read(0, len(piece)) if isinstance(piece, FileSlice) else bytes(piece)
        for piece in pieces
    )
