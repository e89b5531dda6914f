"""Turns the frames of connections into the events of a recording.

The caller names each frame in the order in which the server gets requests and sends responses; the
file keeps that order over all connections. Secrets never reach the file: a frame of an API that has
some is kept only if it can be decoded and redacted.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import API_KEYS
from kohort.recording.events import (
    Advanced,
    Closed,
    Opened,
    RecordedRequest,
    RecordedResponse,
)
from kohort.recording.frames import (
    PRODUCE,
    RequestHead,
    decode_request,
    decode_response,
    read_head,
    response_body_at,
    with_body,
)
from kohort.recording.recording_file import RecordingWriter
from kohort.recording.redaction import OPAQUE, Redaction

_SASL_HANDSHAKE: Final = API_KEYS["sasl_handshake"]
_SASL_AUTHENTICATE: Final = API_KEYS["sasl_authenticate"]


@dataclass(slots=True)
class _Connection:
    pending: deque[RequestHead | None] = field(default_factory=deque)
    """Requests without a response so far; None: of one whose response is not kept."""
    has_raw_tokens: bool = False
    """Whether SASL tokens may come without a header, after SaslHandshake v0."""


class Recorder:
    """Records connections to a file, from its creation to `close`.

    Its methods are called on one thread, and raise RecordingError if the file cannot be written.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float], *, redact_values: bool = False
    ) -> None:
        """Create the file; `clock` returns seconds. Raises RecordingError, also if it exists."""
        self.path = path
        self.requests = 0
        """Number of requests so far."""
        self.connections = 0
        """Number of connections so far."""
        self._writer = RecordingWriter(path, redacts_values=redact_values)
        self._redaction = Redaction(values=redact_values)
        self._clock = clock
        self._started = clock()
        self._open: dict[int, _Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._writer.close()

    def opened(self, node: int | None = None) -> int:
        """A client has connected to a node, or to a bootstrap server; returns its number."""
        self.connections += 1
        self._open[self.connections] = _Connection()
        self._writer.add(Opened(at=self._at(), connection=self.connections, node=node))
        return self.connections

    def request(self, number: int, frame: bytes) -> None:
        """A request of a connection, without its size."""
        self.requests += 1
        connection = self._open[number]
        try:
            head = read_head(frame)
            message = self._decoded_request(frame, head, connection)
        except MalformedError:
            self._add_unknown_request(number, connection, frame)
            return
        has_response = head.api_key != PRODUCE or message.acks != 0
        kept, had_secrets = frame, False
        if self._redaction.concerns(head.api_key):
            try:
                message, had_secrets = self._redaction.redacted(message)
            except MalformedError:  # records in an old format
                self._add_unknown_request(number, connection, frame)
                return
            kept = with_body(frame, head.body_at, message)
        connection.has_raw_tokens |= head.api_key == _SASL_HANDSHAKE and head.version == 0
        if has_response:
            connection.pending.append(head)
        self._writer.add(
            RecordedRequest(
                at=self._at(),
                connection=number,
                api_key=head.api_key,
                version=head.version,
                client_id=head.client_id,
                frame=kept,
                has_response=has_response,
                is_redacted=had_secrets,
            )
        )

    def awaiting_response(self, number: int) -> RequestHead | None:
        """The oldest request without a response; None if there is none, or it is unknown."""
        pending = self._open[number].pending
        return pending[0] if pending else None

    def response(self, number: int, frame: bytes) -> None:
        """The response, without its size, to the oldest request that has none yet."""
        pending = self._open[number].pending
        head = pending.popleft() if pending else None
        kept = None if head is None else self._kept_response(frame, head)
        self._writer.add(RecordedResponse(at=self._at(), connection=number, frame=kept))

    def closed(self, number: int, *, by_server: bool = False) -> None:
        """A connection has ended. Idempotent."""
        if self._open.pop(number, None) is not None:
            self._writer.add(Closed(at=self._at(), connection=number, by_server=by_server))

    def advanced(self, seconds: float) -> None:
        """A test is about to advance the server's time."""
        self._writer.add(Advanced(at=self._at(), seconds=seconds))

    def _at(self) -> float:
        return self._clock() - self._started

    def _decoded_request(self, frame: bytes, head: RequestHead, connection: _Connection) -> Any:
        """The message if it is needed. Raises MalformedError."""
        if head.api_key == OPAQUE:
            raise MalformedError("an envelope")
        if (
            connection.has_raw_tokens  # a token could look like the header of a request
            or head.api_key == PRODUCE
            or self._redaction.concerns(head.api_key)
        ):
            return decode_request(frame, head)
        return None

    def _add_unknown_request(self, number: int, connection: _Connection, frame: bytes) -> None:
        connection.pending.append(None)
        api_key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        if connection.has_raw_tokens:
            api_key, version = _SASL_AUTHENTICATE, 0
        self._writer.add(
            RecordedRequest(
                at=self._at(),
                connection=number,
                api_key=api_key,
                version=version,
                client_id="",
                frame=None,
                is_redacted=True,
            )
        )

    def _kept_response(self, frame: bytes, head: RequestHead) -> bytes | None:
        if not self._redaction.concerns(head.api_key):
            return frame
        try:
            message, _ = self._redaction.redacted(
                decode_response(frame, head.api_key, head.version)
            )
            return with_body(frame, response_body_at(frame, head.api_key, head.version), message)
        except MalformedError:
            return None
