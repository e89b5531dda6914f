"""SASL/PLAIN (RFC 4616): the client sends a name and a password.

The password is sent in the clear, so PLAIN is for connections with TLS.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from kohort.security.sasl import Authenticated, Failed, Outcome, shown

MECHANISM: Final = "PLAIN"

_TOKENS: Final = 3
_NOBODY: Final = "a user that does not exist"


class PlainServer:
    """One authentication by PLAIN."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` by user."""
        self._passwords = passwords

    def step(self, message: bytes) -> Outcome:
        try:
            tokens = message.decode().split("\0")
        except UnicodeDecodeError:
            return Failed("PLAIN: the message is not UTF-8")
        if len(tokens) != _TOKENS:
            return Failed(f"PLAIN: {_TOKENS} tokens are expected, not {len(tokens)}")
        return self._judge(*tokens)

    def _judge(self, authorization_id: str, user: str, password: str) -> Outcome:
        if not user:
            return _failed("username not specified")
        if not password:
            return _failed("password not specified")
        if authorization_id not in ("", user):
            return _failed("Client requested an authorization id that is different from username")
        digest = self._passwords.get(user)
        # Digests have equal lengths, so the time reveals neither the password's length nor the
        # user.
        right = hmac.compare_digest(
            _digest(password), _digest(_NOBODY if digest is None else digest)
        )
        if digest is None or not right:
            why = "an unknown user" if digest is None else "a wrong password"
            return Failed(
                f"PLAIN: {why}: {shown(user)}",
                "Authentication failed: Invalid username or password",
            )
        return Authenticated(user)


def _failed(why: str) -> Failed:
    return Failed(f"PLAIN: {why}", f"Authentication failed: {why}")


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
