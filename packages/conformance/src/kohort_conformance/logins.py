"""Logins by SASL, message by message, as clients and as those who send what no client would.

A `Login` is the SASL of one connection. Its methods record what the server says: with the
nonces, salts and signatures of SCRAM checked and replaced by words, since they are new each time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from kohort_conformance.stage import Client, SetUpError, Stage
from kohort_conformance.wire import HungUpError, SilentError, password

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM: Final[Mapping[str, tuple[int, str]]] = {
    "SCRAM-SHA-256": (1, "sha256"),
    "SCRAM-SHA-512": (2, "sha512"),
}
"""Code of a mechanism in the protocol, and its hash."""
ITERATIONS: Final = 4096
SALT: Final = b"salt of a scenario"
NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"


def plain_token(user: str, secret: str | None = None, authorization_id: str = "") -> bytes:
    """The message of PLAIN, by default with the right password."""
    return f"{authorization_id}\0{user}\0{password(user) if secret is None else secret}".encode()


# --- OAUTHBEARER


def encoded(part: object) -> str:
    """A part of a JWT: a value as JSON, or bytes as they are, in base64 without padding."""
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def claims_of(user: str, seconds: float = 3_600, **changes: Any) -> dict[str, Any]:
    """The claims of a token that expires after so many seconds; without those changed to None."""
    now = int(time.time())
    claims = {"sub": user, "iat": now - 5, "exp": now + seconds, **changes}
    return {name: value for name, value in claims.items() if value is not None}


def unsigned(claims: object, header: object = None, signature: str = "") -> str:
    """A token without a signature."""
    head = {"alg": "none"} if header is None else header
    return f"{encoded(head)}.{encoded(claims)}.{signature}"


def bearer(token: str, authorization_id: str = "", extra: str = "") -> bytes:
    """The message of OAUTHBEARER."""
    a = f"a={authorization_id}" if authorization_id else ""
    return f"n,{a},\x01auth=Bearer {token}\x01{extra}\x01".encode()


# --- SCRAM


def salted(mechanism: str, secret: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(SCRAM[mechanism][1], secret.encode(), salt, iterations)


def upsertion(
    user: str,
    mechanism: str = "SCRAM-SHA-256",
    secret: str | None = None,
    iterations: int = ITERATIONS,
) -> dict[str, Any]:
    """An entry of AlterUserScramCredentials, by default with the user's usual password."""
    secret = password(user) if secret is None else secret
    return {
        "name": user,
        "mechanism": SCRAM[mechanism][0],
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted(mechanism, secret, SALT, iterations),
    }


async def alter_users(stage: Stage, **values: list[dict[str, Any]]) -> None:
    """Set or delete credentials, unrecorded."""
    maker = await stage.client("user maker")
    told = await maker.quiet("AlterUserScramCredentials", 0, **values)
    for one in told["results"]:
        if one["error_code"] != "NONE (0)":
            raise SetUpError(f"AlterUserScramCredentials: {one}")


async def create_user(stage: Stage, name: str = "user", *mechanisms: str, **how: Any) -> str:
    """Make a user with SCRAM credentials, all by default, and wait until it can log in.

    Its name is the scenario's own. `how` is as in `upsertion`.
    """
    user = stage.user_named(name)
    for mechanism in mechanisms or SCRAM:
        await alter_users(stage, upsertions=[upsertion(user, mechanism, **how)])
        await until_logs_in(stage, user, mechanism, how.get("secret"))
    return user


async def until_logs_in(
    stage: Stage, user: str, mechanism: str, secret: str | None = None, *, succeeds: bool = True
) -> None:
    """Wait until the login of a user succeeds, or fails."""

    async def is_so() -> bool:
        login = Login(await stage.stranger("watcher"), mechanism)
        try:
            await login.succeed(user, secret)
        except (HungUpError, SilentError, SetUpError):
            return not succeeds
        finally:
            await login.client.close()
        return succeeds

    await stage.until(f"login of {user} by {mechanism}", is_so)


class Login:
    """The SASL of one connection.

    `handshake` begins it, unless the scenario does so itself. Messages go as SaslAuthenticate of
    one version, or after SaslHandshake v0 without a header.
    """

    def __init__(self, client: Client, mechanism: str = PLAIN, version: int = 2) -> None:
        self.client = client
        self.mechanism = mechanism
        self.version = version
        self.is_raw = False
        self._scram = ScramClient(mechanism)

    async def handshake(self, version: int = 1) -> None:
        """Say the mechanism, unrecorded."""
        told = await self.client.quiet("SaslHandshake", version, mechanism=self.mechanism)
        if told["error_code"] != "NONE (0)":
            raise SetUpError(f"SaslHandshake: {told['error_code']}")
        self.is_raw = version == 0

    async def say(self, message: bytes) -> bytes:
        """Send a message and record what comes back; the server's message."""
        if self.is_raw:
            return await self._say_raw(message)
        call = self.client.send("SaslAuthenticate", self.version, auth_bytes=message)
        told = await call.response_as(self._shown)
        return bytes.fromhex(told.get("auth_bytes", ""))

    async def first(self, user: str, **how: Any) -> bytes:
        """Send the first message of SCRAM, and record what comes back."""
        return await self.say(self._scram.first(user, **how))

    async def final(self, server_first: bytes, secret: str, **how: Any) -> None:
        """Send the last message of SCRAM, and record what comes back."""
        await self.say(self._scram.final(server_first, secret, **how))

    async def log_in(self, user: str, secret: str | None = None) -> None:
        """Log in, recorded from the handshake on."""
        await self.handshake()
        await self.authenticate(user, secret)

    async def authenticate(self, user: str, secret: str | None = None) -> None:
        """Send all messages of the mechanism, and record what comes back."""
        if self.mechanism in SCRAM:
            server_first = await self.first(user)
            if server_first:
                await self.final(server_first, password(user) if secret is None else secret)
        else:
            await self.say(self._only_message(user, secret))

    async def succeed(self, user: str, secret: str | None = None, *, begins: bool = True) -> None:
        """Log in, unrecorded, with the handshake or after it. Raises SetUpError if that fails."""
        if begins:
            await self.handshake()
        if self.mechanism in SCRAM:
            server_first = await self._heard(self._scram.first(user))
            secret = password(user) if secret is None else secret
            await self._heard(self._scram.final(server_first, secret))
        else:
            await self._heard(self._only_message(user, secret))

    def _only_message(self, user: str, secret: str | None) -> bytes:
        if self.mechanism == OAUTHBEARER:
            return bearer(unsigned(claims_of(user)) if secret is None else secret)
        return plain_token(user, secret)

    async def _heard(self, message: bytes) -> bytes:
        told = await self.client.quiet("SaslAuthenticate", self.version, auth_bytes=message)
        if told["error_code"] != "NONE (0)":
            raise SetUpError(f"SaslAuthenticate: {told['error_code']}")
        return bytes.fromhex(told["auth_bytes"])

    async def _say_raw(self, message: bytes) -> bytes:
        connection = self.client.connection
        call = connection.expect("SaslAuthenticate", 0)
        connection.send_frame(message)
        label = f"{self.client.client_id}: token"
        try:
            told = await call.frame()
        except HungUpError:
            self.client.stage.transcript.record_outcome(label, "connection closed")
            return b""
        self.client.stage.note(label, self._scram.shown(told))
        return told

    def _shown(self, told: dict[str, Any]) -> dict[str, Any]:
        message = bytes.fromhex(told["auth_bytes"])
        return {**told, "auth_bytes": self._scram.shown(message)}


class ScramClient:
    """A client's side of SCRAM, which may break the rules on purpose."""

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._bare = self._server_first = ""
        self._signature = b""

    def first(self, user: str, gs2: str = "n,,", nonce: str = NONCE, extra: str = "") -> bytes:
        """The client's first message; `user` as it is written there."""
        self._bare = f"n={user},r={nonce}{extra}"
        return f"{gs2}{self._bare}".encode()

    def final(
        self, server_first: bytes, secret: str, binding: str = "biws", nonce: str = "",
        extra: str = "",
    ) -> bytes:  # fmt: skip
        """The client's final message. `nonce` replaces the right one, which the proof counts on."""
        self._server_first = server_first.decode()
        fields = dict(one.split("=", 1) for one in self._server_first.split(","))
        hash_ = SCRAM[self._mechanism][1]
        key = salted(self._mechanism, secret, base64.b64decode(fields["s"]), int(fields["i"]))
        bare = f"c={binding},r={nonce or fields['r']}{extra}"
        signed = f"{self._bare},{self._server_first},{bare}".encode()
        client_key = hmac.digest(key, b"Client Key", hash_)
        signature = hmac.digest(hashlib.new(hash_, client_key).digest(), signed, hash_)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(key, b"Server Key", hash_), signed, hash_)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def shown(self, message: bytes) -> str:
        """A message of the server for the transcript."""
        text = message.decode("latin-1")
        if text.startswith("r="):
            nonce, *rest = text.split(",")
            salt = f"s={base64.b64encode(SALT).decode()}"
            whose = "both nonces" if nonce.startswith(f"r={NONCE}") else "another nonce"
            rest[0] = "s=<salt>" if rest[0] == salt else "s=<another salt>"
            return ",".join([f"r=<{whose}>", *rest])
        right = f"v={base64.b64encode(self._signature).decode()}"
        return "v=<signature>" if self._signature and text == right else text
