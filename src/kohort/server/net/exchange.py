"""One request and the way its response goes back: all that a handler sees of the network."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from kohort.log.stores import Records
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode
from kohort.security import Peer
from kohort.server.net.login import Login
from kohort.server.net.repeated_requests import RepeatedRequest

Body: TypeAlias = bytes | Sequence[Records]
"""A response body, whole or in pieces: large ones are sent without being copied."""


MAX_THROTTLE_MS: Final = 2**31 - 1
"""Longest wait that a response can state: 24 days."""


class RequestConnection(Protocol):
    """Connection of a request, with what its exchange calls."""

    @property
    def is_open(self) -> bool:
        """Whether a response still reaches the client."""
        ...

    @property
    def peer(self) -> Peer:
        """The client by now: authentication changes it."""
        ...

    @property
    def login(self) -> Login | None:
        """The SASL of the connection; None on a listener without."""
        ...

    def __hash__(self) -> int:
        """By identity: the coordinator keys its state of a connection by it."""
        ...

    def respond(self, exchange: "Exchange", body: Body | None, errors: Iterable[int]) -> None:
        """End the request in progress; None: it has no response."""
        ...

    @property
    def largest_response(self) -> int | None:
        """Bytes that a response should have at most, None if there is no limit."""
        ...

    def cache_request(self, request: RepeatedRequest) -> None:
        """Compare the next frames with `request` before they are parsed."""
        ...

    def when_closed(self, function: Callable[[Any], None]) -> None:
        """Call `function` with the connection once it is lost."""
        ...

    def close_with_reason(self, why: str) -> None:
        """Close, and log `why`."""
        ...

    def fail(self, error: BaseException, exchange: "Exchange | None" = None) -> None:
        """Close because the work on a request raised `error`."""
        ...


class Exchange:
    """One request, to be ended once.

    It ends by a `respond` method, `end_without_response` or `close_with_reason`.

    The next request of the connection waits for it: Kafka responds in request order and works on
    one request of a connection at a time. A response to a closed connection is dropped, so code
    that parks an exchange need not know of the connection.
    """

    __slots__ = (
        "_done", "api_key", "client_id", "connection", "correlation_id", "size", "throttle_ms",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        connection: RequestConnection,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str,
        size: int = 0,
    ) -> None:
        self.connection = connection
        """Identifies the connection; handlers only compare and hash it."""
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        """"" if the client sent none."""
        self.size = size
        """Bytes of the request."""
        self.throttle_ms = 0
        """Time that the client must wait after the response, because of its quotas."""
        self._done = False

    @property
    def client_host(self) -> str:
        """The client's address in the form that Kafka shows: "/127.0.0.1"."""
        return f"/{self.connection.peer.host}"

    @property
    def peer(self) -> Peer:
        """The client: read at each request, because a connection may authenticate again."""
        return self.connection.peer

    @property
    def login(self) -> Login | None:
        """The SASL of the connection; None on a listener without."""
        return self.connection.login

    @property
    def largest_response(self) -> int | None:
        """Bytes that the response should have at most, None if there is no limit."""
        return self.connection.largest_response

    def respond(self, entity: Any) -> None:
        """Send a response entity of this request's API and version."""
        if self._finish():
            self.connection.respond(self, encode(entity), errors_in(entity))

    def respond_encoded(self, body: Body, errors: Iterable[int] = ()) -> None:
        """Send an encoded response body that bears these `errors`; each is counted, 0 is none."""
        if self._finish():
            self.connection.respond(self, body, errors)

    def end_without_response(self) -> None:
        """End the exchange without a response: Produce with acks=0."""
        if self._finish():
            self.connection.respond(self, None, ())

    def close_with_reason(self, why: str) -> None:
        """Close the connection, where Kafka does so instead of responding. `why` is logged."""
        if self._finish():
            self.connection.close_with_reason(why)

    def throttle(self, wait_ms: int) -> None:
        """Make the client wait at least `wait_ms` after the response, which states that time."""
        self.throttle_ms = max(self.throttle_ms, min(wait_ms, MAX_THROTTLE_MS))

    def callback(self, function: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
        """A callback that calls `function(self, *arguments, response)` with the group's response.

        An exception in `function` (a response that the version cannot express, a bug) closes this
        connection with one line in the log. It does not reach the caller, which calls back many.
        """
        return partial(_guarded, self, function, *arguments)

    def cache_request(self, request: RepeatedRequest) -> None:
        """Let the connection recognise repetitions of this request, as `request`."""
        self.connection.cache_request(request)

    def when_connection_closes(self, function: Callable[[Any], None]) -> None:
        """Call `function` with the connection once it is lost; once, however often it is given."""
        self.connection.when_closed(function)

    def _finish(self) -> bool:
        if self._done:
            raise RuntimeError(f"{self!r} was ended before")
        self._done = True
        return self.connection.is_open

    def __repr__(self) -> str:
        state = "ended" if self._done else "open"
        return f"<Exchange api={self.api_key} v{self.version} id={self.correlation_id} {state}>"


def _guarded(exchange: Exchange, function: Callable[..., None], *arguments: Any) -> None:
    try:
        function(exchange, *arguments)
    except Exception as error:  # any exception is this exchange's alone
        exchange.connection.fail(error, exchange)
