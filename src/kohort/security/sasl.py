"""Server side of SASL: the outcomes of each message of a client.

A mechanism is a state machine for one authentication. It has no I/O, clock or random source:
nonces, times and lookups of users are arguments. A failed client learns nothing about users: `text`
is the same for an unknown user and for a wrong password.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The next message to the client, which must respond."""

    message: bytes
    failure: str | None = None
    """Reason for the log if the authentication has already failed; `message` informs the client."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end of a successful authentication."""

    user: str
    """Name of the principal."""
    message: bytes = b""
    """The last message to the client."""
    expires_ms: int | None = None
    """Time since the epoch at which the credential expires, None if it does not."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a failed authentication."""

    reason: str
    """For the log; without secrets."""
    text: str | None = None
    """Error message for the client; None: the mechanism's default message."""


Outcome: TypeAlias = Challenge | Authenticated | Failed


class SaslServer(Protocol):
    """One authentication in progress."""

    def step(self, message: bytes) -> Outcome:
        """Handle the client's next message. Never raises. Not called after the end."""
        ...


MAX_SHOWN = 80


def shown(text: str) -> str:
    """A client's text for the log: on one line, and truncated."""
    quoted = ascii(text)
    return quoted if len(quoted) <= MAX_SHOWN else quoted[:MAX_SHOWN] + "…"
