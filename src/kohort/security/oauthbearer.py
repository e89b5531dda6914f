"""SASL/OAUTHBEARER (RFC 7628): the client sends a bearer token, which a function validates.

A refused token does not fail the authentication at once: the client gets a JSON status, must send
^A, and then the authentication fails.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort.security.sasl import Authenticated, Challenge, Failed, Outcome, shown

MECHANISM: Final = "OAUTHBEARER"

MAX_TOKEN_CHARS: Final = 65_536
"""Maximum length of a token, which Kafka does not bound: half a megabyte of JSON takes 50 ms."""
_CONTROL_A: Final = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """Principal and expiry of a valid token."""

    principal: str
    expires_ms: int
    """Expiry in ms since the epoch."""


class InvalidTokenError(ValueError):
    """A token was refused; the text has the reason, not the token."""


Validate = Callable[[str], BearerToken]
"""(encoded token) -> validated token. Raises InvalidTokenError."""


class OAuthBearerServer:
    """One authentication by OAUTHBEARER."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused: Failed | None = None

    def step(self, message: bytes) -> Outcome:
        if self._refused is not None:
            if message == _CONTROL_A:
                return self._refused
            return Failed("OAUTHBEARER: the client went on after its token was refused")
        # Latin-1 decodes any bytes; the grammar refuses all but ASCII.
        match = _CLIENT_FIRST.fullmatch(message.decode("latin-1"))
        if match is None:
            return Failed("OAUTHBEARER: the client's first message cannot be understood")
        authorization_id, pairs = match.groups(default="")
        token = _bearer_token(pairs)
        if token is None or len(token) > MAX_TOKEN_CHARS:
            return Failed(
                "OAUTHBEARER: the client's first message has no bearer token of up to "
                f"{MAX_TOKEN_CHARS} characters"
            )
        return self._judge(authorization_id, token)

    def _judge(self, authorization_id: str, token: str) -> Outcome:
        try:
            claims = self._validate(token)
        except InvalidTokenError as error:
            status = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            self._refused = Failed(f"OAUTHBEARER: {error}", status)
            return Challenge(status.encode(), self._refused.reason)
        if authorization_id not in ("", claims.principal):  # compared literally, as in Kafka
            return Failed(
                f"OAUTHBEARER: {shown(claims.principal)} asked for another authorization id",
                f"Authentication failed: Client requested an authorization id "
                f"({authorization_id}) that is different from the token's principal "
                f"name ({claims.principal})",
            )
        return Authenticated(claims.principal, expires_ms=claims.expires_ms)


# The grammar of Kafka's OAuthBearerClientInitialResponse.java.
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=((?:[\x01-+\--<>-\x7f]|=2C|=3D)+))?,\x01((?:[A-Za-z]+=[!-~ \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


def _bearer_token(pairs: str) -> str | None:
    attributes = dict(pair.split("=", 1) for pair in pairs.split("\x01") if pair)
    match = _AUTH.fullmatch(attributes.get("auth", ""))
    return None if match is None else match[1]
