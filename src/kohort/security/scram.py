"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as in Kafka.

    client first   n,,n=user,r=NONCE
    server first   r=NONCE…,s=SALT,i=ITERATIONS
    client final   c=biws,r=NONCE…,p=PROOF
    server final   v=SIGNATURE

Names and passwords are not prepared (no SASLprep), there is no channel binding, and names are
ASCII. The server stores `ScramCredential`s, from which no password can be computed. A step takes
two HMACs and a hash; only clients, and tools that set passwords, compute the slow PBKDF2.

An unknown user also gets a salt and iterations, always the same ones (`ScramUsers`). Otherwise the
first message would reveal which users exist.
"""

import base64
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kohort.security.sasl import Authenticated, Challenge, Failed, Outcome, shown

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Kafka's bounds."""
MAX_NAME_CHARS: Final = 1_024
"""Maximum length of a user name. Kafka has no bound; a batch must fit into a segment."""
SALT_BYTES: Final = 32
"""Size of the salts that Kohort's tools create."""


class ScramMechanism(Enum):
    """A mechanism; the value is its code in the protocol (`ScramMechanism` in Kafka)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def mechanism(self) -> str:
        """Its name in SASL: "SCRAM-SHA-256", "SCRAM-SHA-512"."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def digest(self) -> str:
        """Its hash algorithm, by its name in `hashlib`."""
        return self.name.replace("_", "").lower()


BY_MECHANISM: Final = {mechanism.mechanism: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """Credential that the server stores instead of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<ScramCredential iterations={self.iterations}>"


def salted_password(kind: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """`Hi` of RFC 5802. Takes milliseconds: not for the server's event loop."""
    return hashlib.pbkdf2_hmac(kind.digest, password.encode(), salt, iterations)


def credential_of(
    kind: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", kind.digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(kind.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", kind.digest),
        iterations=iterations,
    )


class ScramUsers:
    """The credentials of all users, and invented ones for unknown names."""

    def __init__(self) -> None:
        self.secret = b""
        """Key of invented salts; it must stay secret, and survive a restart of the server."""
        self._users: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self._forms: dict[ScramMechanism, Counter[tuple[int, int]]] = {
            kind: Counter() for kind in ScramMechanism
        }

    def __len__(self) -> int:
        return len(self._users)

    def snapshot(self) -> Mapping[str, Mapping[ScramMechanism, ScramCredential]]:
        """A copy of the credentials of all users."""
        return self._users.copy()

    def of(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        """The credentials of a user, none if it does not exist."""
        return self._users.get(user, {})

    def put(self, user: str, kind: ScramMechanism, credential: ScramCredential | None) -> None:
        """Set a credential, or remove it."""
        of_user = dict(self.of(user))
        before, forms = of_user.pop(kind, None), self._forms[kind]
        if before is not None:
            forms[_form(before)] -= 1
            if not forms[_form(before)]:
                del forms[_form(before)]
        if credential is not None:
            forms[_form(credential)] += 1
            of_user[kind] = credential
        if of_user:
            self._users[user] = of_user
        else:
            self._users.pop(user, None)

    def invented(self, user: str, kind: ScramMechanism) -> ScramCredential:
        """A credential that no password matches, in the form of most real credentials."""
        usual = self._forms[kind].most_common(1)
        size, iterations = usual[0][0] if usual else (SALT_BYTES, MIN_ITERATIONS)
        salt = b""
        while len(salt) < size:
            salt += hmac.digest(self.secret, f"{len(salt)} {kind.name} {user}".encode(), "sha512")
        key = hmac.digest(self.secret, b"key" + salt, kind.digest)
        return ScramCredential(
            salt=salt[:size], stored_key=key, server_key=key, iterations=iterations
        )


def _form(credential: ScramCredential) -> tuple[int, int]:
    return len(credential.salt), credential.iterations


class ScramServer:
    """One authentication by SCRAM."""

    def __init__(self, kind: ScramMechanism, users: ScramUsers, nonce: str) -> None:
        """`nonce`: the server's part, fresh, in printable ASCII without a comma."""
        self._kind = kind
        self._users = users
        self._nonce = nonce
        self._exchange: _Exchange | None = None

    def step(self, message: bytes) -> Outcome:
        # Latin-1 decodes any bytes; the grammar refuses all but ASCII.
        text = message.decode("latin-1")
        outcome = self._first(text) if self._exchange is None else self._final(text, self._exchange)
        if isinstance(outcome, Failed):
            return Failed(f"{self._kind.mechanism}: {outcome.reason}", outcome.text)
        return outcome

    def _first(self, message: str) -> Outcome:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            return Failed("the client's first message cannot be understood")
        authorization_id, bare, name, client_nonce, extensions = match.groups(default="")
        user = _unescaped(name)
        if authorization_id and _unescaped(authorization_id) != user:
            why = "Client requested an authorization id that is different from username"
            return Failed(why, f"Authentication failed: {why}")
        if _DELEGATION_TOKEN.search(extensions):
            return Failed("delegation tokens are not served")
        # Both are computed, so that the time does not reveal whether the user exists.
        invented = self._users.invented(user, self._kind)
        credential = self._users.of(user).get(self._kind)
        offered = credential or invented
        nonce = client_nonce + self._nonce
        salt = base64.b64encode(offered.salt).decode()
        server_first = f"r={nonce},s={salt},i={offered.iterations}"
        self._exchange = _Exchange(
            user=user,
            exists=credential is not None,
            credential=offered,
            nonce=nonce,
            messages=f"{bare},{server_first}",
        )
        return Challenge(server_first.encode())

    def _final(self, message: str, exchange: "_Exchange") -> Outcome:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            return Failed("the client's final message cannot be understood")
        without_proof, nonce, proof = match.groups()
        if nonce != exchange.nonce:
            why = "the nonce of the final message is not that of the first one"
            if nonce.endswith(exchange.nonce):  # the client's own part is repeated
                why += "; librdkafka does so before 2.6.1: use a later one"
            return Failed(why)
        signed = f"{exchange.messages},{without_proof}".encode()
        right = self._is_right(base64.b64decode(proof), exchange.credential.stored_key, signed)
        signature = hmac.digest(exchange.credential.server_key, signed, self._kind.digest)
        if not (right and exchange.exists):
            why = "a wrong password" if exchange.exists else "an unknown user"
            return Failed(f"{why}: {shown(exchange.user)}")
        return Authenticated(exchange.user, b"v=" + base64.b64encode(signature))

    def _is_right(self, proof: bytes, stored_key: bytes, signed: bytes) -> bool:
        signature = hmac.digest(stored_key, signed, self._kind.digest)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._kind.digest, client_key).digest(), stored_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """State between the first message and the final one."""

    user: str
    exists: bool
    credential: ScramCredential
    nonce: str
    messages: str
    """The first messages of client and server, which both sign."""


# The grammar of Kafka's ScramMessages.java. Each repeat ends at a character that it cannot contain,
# so a match takes linear time without possessive quantifiers. Python before 3.11.5 matches those
# wrongly.
_NAME: Final = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-+\--\x7f]+"
_PRINTABLE: Final = r"[!-+\--~]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=({_NAME}))?,((?:m={_VALUE},)?n=({_NAME}),r=({_PRINTABLE})({_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    # An extension must not match the proof.
    rf"(c={_BASE64},r=({_PRINTABLE})(?:,(?!p=)[A-Za-z]+={_VALUE})*),p=({_BASE64})"
)
_DELEGATION_TOKEN: Final = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
