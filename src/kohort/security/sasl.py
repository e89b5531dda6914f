"""Server side of SASL: what a mechanism returns for each message of a client.

A mechanism is a state machine for one authentication. It has no I/O, clock or random source:
nonces, the time and look-ups of users are arguments. A client that fails learns nothing about
users: `text` is the same for an unknown user and for a wrong password.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The next message to the client, which has to send another."""

    message: bytes
    failure: str | None = None
    """Why the authentication has failed already, for the log; the client is told by `message`."""


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
    """Error message for the client; None: that of any failure of the mechanism."""


Outcome: TypeAlias = Challenge | Authenticated | Failed


class SaslServer(Protocol):
    """One authentication in progress."""

    def step(self, message: bytes) -> Outcome:
        """Take the client's next message. Not called again after an end. Raises nothing."""
        ...


MAX_SHOWN = 80


def shown(text: str) -> str:
    """A client's text as it is logged: on one line, and cut."""
    quoted = ascii(text)
    return quoted if len(quoted) <= MAX_SHOWN else quoted[:MAX_SHOWN] + "…"
