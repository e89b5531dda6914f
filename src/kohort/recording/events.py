"""What a recording consists of: events of connections, in the order in which they happened."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A client connected, or sent its first request since the recording began."""

    at: float
    """Seconds since the start of the recording, by the recorder's clock, as in all events."""
    connection: int
    """Number of the connection, from 1 on; never used twice in a recording."""
    node: int | None = None
    """Node id of the broker; None if the client connected to a bootstrap server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request reached the server."""

    at: float
    connection: int
    api_key: int
    version: int
    client_id: str
    """"" if the client sent none."""
    frame: bytes | None
    """Header and body, without the size. None if it is not kept, because it cannot be decoded and
    may have secrets."""
    has_response: bool = True
    """False for Produce with acks=0."""
    is_redacted: bool = False
    """Whether secrets were removed: the request would fail now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResponse:
    """The response to the oldest request of the connection that had none yet."""

    at: float
    connection: int
    frame: bytes | None
    """Header and body, without the size; None as in `RecordedRequest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The connection ended."""

    at: float
    connection: int
    by_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """A test advanced the server's time; `at` is the time before it."""

    at: float
    seconds: float


Event: TypeAlias = Opened | RecordedRequest | RecordedResponse | Closed | Advanced
