"""Client side of SCRAM (RFC 5802) without channel binding, for clients and nodes.

As in Kafka, names and passwords are not prepared (no SASLprep).
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kohort.security.scram import MIN_ITERATIONS, ScramMechanism, credential_of, salted_password

MAX_ITERATIONS: Final = 1_000_000
"""Maximum iterations: more would take the client seconds."""


class ScramError(ValueError):
    """The server refused the user, or failed to authenticate itself."""


class ScramClient:
    """One authentication: `first`, `challenged`, `final` and `verify`, in this order."""

    def __init__(self, kind: ScramMechanism, username: str, password: str, nonce: str) -> None:
        """`nonce` is fresh, printable ASCII without a comma."""
        self._kind = kind
        self._username = username
        self._password = password
        self._nonce = nonce
        self._messages = ""
        """The first messages of client and server, which both sign."""
        self._without_proof = ""
        self._signature = b""
        """The expected signature of the server."""

    def first(self) -> bytes:
        """The first message to the server."""
        name = self._username.replace("=", "=3D").replace(",", "=2C")
        self._messages = f"n={name},r={self._nonce}"
        return f"n,,{self._messages}".encode()

    def challenged(self, message: bytes) -> Callable[[], bytes]:
        """Handle the server's first message. Returns a function that computes the salted password.

        It takes milliseconds to a second, so call it in another thread. Raises ValueError.
        """
        text = message.decode()
        attributes = _attributes(text)
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("SCRAM: the broker did not respond to our nonce")
        try:
            salt, iterations = (
                base64.b64decode(attributes["s"], validate=True),
                int(attributes["i"]),
            )
        except (KeyError, ValueError):
            raise ScramError(
                "SCRAM: the broker's first message has no salt or no iterations"
            ) from None
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ScramError(
                f"SCRAM: {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            )
        self._messages += f",{text}"
        self._without_proof = f"c=biws,r={nonce}"
        return partial(salted_password, self._kind, self._password, salt, iterations)

    def final(self, salted: bytes) -> bytes:
        """The last message to the server."""
        digest = self._kind.digest
        message = f"{self._messages},{self._without_proof}".encode()
        keys = credential_of(self._kind, salted, b"", 0)
        signature = hmac.digest(keys.stored_key, message, digest)
        client_key = hmac.digest(salted, b"Client Key", digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(keys.server_key, message, digest)
        return f"{self._without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, message: bytes) -> None:
        """Check the server's last message. Raises ValueError for a refusal or wrong signature."""
        final = _attributes(message.decode())
        if "e" in final:
            raise ScramError(f"SCRAM: the broker refused {self._username!r}: {final['e']}")
        expected = base64.b64encode(self._signature).decode()
        if not hmac.compare_digest(expected, final.get("v", "")):
            raise ScramError(
                "SCRAM: the broker does not know our password either: it is not whom it says it is"
            )


def _attributes(message: str) -> Mapping[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}
