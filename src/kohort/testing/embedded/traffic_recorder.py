"""Recordings of an embedded server: its requests and responses, in the order of the server."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

from kohort.log.stores import Records
from kohort.protocol.error_codes import errors_in
from kohort.protocol.framing import CONTENT
from kohort.protocol.messages import encode, frame_head
from kohort.protocol.throttle_time import with_throttle_time
from kohort.recording import Recorder, RecordingError
from kohort.server.net import Connection, Exchange
from kohort.testing.embedded.exchanges import ObservedExchange, joined
from kohort.testing.embedded.server_time import ServerTimeLoop


class TrafficRecorder:
    """Writes one recording. It is used on the loop of the server.

    If the file cannot be written any more, the server goes on, and `close` raises.
    """

    def __init__(self, path: Path, loop: ServerTimeLoop, *, redact_values: bool) -> None:
        """Create the file. Raises RecordingError."""
        self._recorder = Recorder(path, loop.time, redact_values=redact_values)
        self._numbers: dict[Connection, int] = {}
        self._hung_up: set[Connection] = set()
        self._failure: str | None = None

    def request(self, connection: Connection, frame: bytes) -> None:
        """A request is about to be handled."""
        with self._noting_failure():
            if connection not in self._numbers:
                self._numbers[connection] = self._recorder.opened()
                connection.when_closed(self._closed)
            self._recorder.request(self._numbers[connection], frame)

    def response(self, connection: Connection, frame: bytes) -> None:
        """A response is about to be sent."""
        with self._noting_failure():
            if connection in self._numbers:
                self._recorder.response(self._numbers[connection], frame)

    def hung_up(self, connection: Connection) -> None:
        """The server closes the connection instead of a response."""
        self._hung_up.add(connection)

    def advanced(self, seconds: float) -> None:
        """The server's time was advanced."""
        with self._noting_failure():
            self._recorder.advanced(seconds)

    def close(self) -> None:
        """Close the file. Raises RecordingError if something was not written."""
        self._numbers.clear()
        self._recorder.close()
        if self._failure is not None:
            raise RecordingError(self._failure)

    def _closed(self, connection: Connection) -> None:
        by_server = connection in self._hung_up
        self._hung_up.discard(connection)
        number = self._numbers.pop(connection, None)
        if number is None:  # the recording has ended
            return
        with self._noting_failure():
            self._recorder.closed(number, by_server=by_server)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except RecordingError as error:
            self._failure = str(error)


class Recordings:
    """The recordings that a server writes at the moment."""

    def __init__(self, loop: ServerTimeLoop) -> None:
        self._loop = loop
        self._recorders: dict[Path, TrafficRecorder] = {}

    def start(self, path: Path, *, redact_values: bool) -> None:
        """Begin a recording. Raises RecordingError."""
        self._recorders[path] = TrafficRecorder(path, self._loop, redact_values=redact_values)

    def stop(self, path: Path) -> None:
        """End a recording. Idempotent. Raises RecordingError."""
        recorder = self._recorders.pop(path, None)
        if recorder is not None:
            recorder.close()

    def observe(self, exchange: Exchange, frame: bytes) -> ObservedExchange:
        """The exchange whose request and response are recorded; the other one is used no more."""
        observed = RecordedExchange.of(exchange)
        observed.recorders = tuple(self._recorders.values())
        for recorder in observed.recorders:
            recorder.request(observed.client_connection, frame[CONTENT:])
        return observed

    def advanced(self, ms: int) -> None:
        """The server's time was advanced."""
        for recorder in self._recorders.values():
            recorder.advanced(ms / 1_000)


class RecordedExchange(ObservedExchange):
    """An exchange whose response is recorded when it is sent."""

    __slots__ = ("recorders",)
    recorders: tuple[TrafficRecorder, ...]

    @classmethod
    def of(cls, exchange: Exchange) -> Self:
        """As of its base, without recorders."""
        observed = super().of(exchange)
        observed.recorders = ()
        return observed

    @property
    def client_connection(self) -> Connection:
        return cast("Connection", self.connection)

    def respond(self, entity: Any) -> None:
        """As of its base."""
        self.respond_encoded(encode(entity), errors_in(entity))

    def respond_encoded(self, body: bytes | Sequence[Records], errors: Iterable[int] = ()) -> None:
        """As of its base."""
        if self.connection.is_open:
            content = joined(body)
            self.note_end("responded", self._throttled(content))
            head = frame_head(self.api_key, self.version, self.correlation_id, len(content))
            for recorder in self.recorders:
                recorder.response(self.client_connection, head[CONTENT:] + content)
        super().respond_encoded(body, errors)

    def _throttled(self, content: bytes) -> bytes:
        """The response body as it is sent, with the time of a quota."""
        if not self.throttle_ms:
            return content
        return joined(with_throttle_time(self.api_key, self.version, content, self.throttle_ms))

    def end_without_response(self) -> None:
        """As of its base."""
        self.note_end("no response")
        super().end_without_response()

    def close_with_reason(self, why: str) -> None:
        """As of its base."""
        self.note_end("closed")
        for recorder in self.recorders:
            recorder.hung_up(self.client_connection)
        super().close_with_reason(why)
