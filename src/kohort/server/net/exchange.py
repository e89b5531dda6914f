"""One request and the way its answer goes back: all that a handler sees of the network."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode

if TYPE_CHECKING:
    from kohort.server.net.connection import Connection

Body: TypeAlias = bytes | Sequence[bytes | memoryview]
"""A response body, whole or in pieces: large ones are sent as they are, and copied by nobody."""


class Exchange:
    """One request, to be answered once: by exactly one of the four methods, now or later.

    The next request of the connection waits for it (Kafka answers in request order and works on one
    request of a connection at a time). Once the peer has gone, an answer is dropped: whoever parked
    the exchange need not know.
    """

    __slots__ = ("_done", "api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self,
        connection: "Connection",
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str,
    ) -> None:
        self.connection = connection
        """Names the connection; handlers only compare and hash it."""
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        """"" if the client gave none."""
        self._done = False

    @property
    def client_host(self) -> str:
        """The peer's address in the form that Kafka shows: "/127.0.0.1"."""
        return self.connection.client_host

    def answer(self, entity: Any) -> None:
        """Send a response entity of this request's API and version."""
        if self._finish():
            body = encode(entity)
            self._count(errors_in(entity))
            self.connection.reply(self, body)

    def answer_packed(self, body: Body, errors: Iterable[int] = ()) -> None:
        """Send an encoded response body, which bears these `errors`: each is counted, 0 is none."""
        if self._finish():
            self._count(errors)
            self.connection.reply(self, body)

    def _count(self, errors: Iterable[int]) -> None:
        for error in errors:
            if error:
                self.connection.count_error(self.api_key, error)

    def no_answer(self) -> None:
        """End the exchange without a response: Produce with acks=0."""
        if self._finish():
            self.connection.reply(self, None)

    def later(self, function: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
        """A callback for whoever brings the answer: calls `function(self, *arguments, answer)`.

        An exception in it (an answer that the version cannot express, a bug) closes this
        connection, with one line in the log, and goes no further: it must not disturb the one who
        answers many.
        """
        return partial(_guarded, self, function, *arguments)

    def hang_up(self, why: str) -> None:
        """Close the connection, where Kafka does so instead of answering. `why` goes to the log."""
        if self._finish():
            self.connection.hang_up(why)

    def _finish(self) -> bool:
        if self._done:
            raise RuntimeError(f"{self!r} was answered before")
        self._done = True
        return self.connection.is_open

    def __repr__(self) -> str:
        state = "answered" if self._done else "open"
        return f"<Exchange api={self.api_key} v{self.version} id={self.correlation_id} {state}>"


def _guarded(exchange: Exchange, function: Callable[..., None], *arguments: Any) -> None:
    try:
        function(exchange, *arguments)
    except Exception as error:  # whatever it is, it is this exchange's alone
        exchange.connection.failed(error, exchange)
