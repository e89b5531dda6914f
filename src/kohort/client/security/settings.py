"""TLS and SASL authentication of a client, by the standard library alone.

`Security` is the configuration; `Security.exchange` makes the exchange of one connection. The SASL
mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802), and OAUTHBEARER (RFC 7628) with a
function that supplies tokens. GSSAPI would need a system library and is not offered.
"""

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from tempfile import NamedTemporaryFile
from typing import Final, TypeAlias

from kohort.client.errors import AuthenticationError
from kohort.client.properties import checks_arguments
from kohort.client.security.tokens import TokenSource, token_of, validate_source
from kohort.errors import ConfigError
from kohort.security.scram import BY_MECHANISM, ScramMechanism
from kohort.security.scram_client import ScramClient, ScramError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OF_THE_KEY: Final = (
    "; ssl_password is not that of the key, or there is no certificate with its key"
)
"""All that can be wrong where OpenSSL gives no reason."""

Exchange: TypeAlias = AsyncGenerator[bytes, bytes]
"""One SASL authentication: yields messages to send, and is sent the broker's responses.

Raises AuthenticationError.
"""


_OF_TLS: Final = ("ssl_context", "ssl_cafile", "ssl_certfile", "ssl_cadata", "ssl_certdata")
_TYPES: Final = (
    ("protocol", str, "a str"),
    ("ssl_context", ssl.SSLContext | None, "an ssl.SSLContext"),
    ("ssl_cafile", str | PathLike | None, "a path"),
    ("ssl_certfile", str | PathLike | None, "a path"),
    ("ssl_keyfile", str | PathLike | None, "a path"),
    *((name, str | None, "a str") for name in ("ssl_password", "ssl_cadata", "ssl_certdata")),
    ("ssl_check_hostname", bool, "True or False"),
    *((name, str | None, "a str") for name in ("mechanism", "username", "password")),
    ("extensions", Mapping, "a mapping"),
)
"""Field, type, and how an error calls it."""


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`security.protocol` and the settings that belong to it.

    Raises ConfigError for settings that contradict each other.
    """

    protocol: str = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    """Used unchanged; without one, it is made from the files below and the system's authorities."""
    ssl_cafile: str | PathLike[str] | None = None
    ssl_certfile: str | PathLike[str] | None = None
    ssl_keyfile: str | PathLike[str] | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_cadata: str | None = field(default=None, repr=False)
    """The authorities' certificates as PEM text, in place of `ssl_cafile`."""
    ssl_certdata: str | None = field(default=None, repr=False)
    """A certificate chain and its key as PEM text, in place of `ssl_certfile` and `ssl_keyfile`."""
    ssl_check_hostname: bool = True
    mechanism: str | None = None
    """`sasl.mechanism`."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: TokenSource | None = field(default=None, repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions of OAUTHBEARER (KIP-342); extensions of a token override them."""

    def __post_init__(self) -> None:
        for name, kind, expected in _TYPES:
            value = getattr(self, name)
            if not isinstance(value, kind):
                # Its value may be secret.
                raise ConfigError(f"{name}: {expected} is needed, not {type(value).__name__}")
        if self.token is not None:
            validate_source(self.token)
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"security protocol {self.protocol!r}: it is one of {', '.join(PROTOCOLS)}"
            )
        if self.is_sasl:
            self._validate_mechanism()
        elif self.mechanism is not None:
            raise ConfigError(
                f"mechanism={self.mechanism!r} is for SASL: set protocol to SASL_SSL or "
                "SASL_PLAINTEXT, or leave it out"
            )
        else:
            present = [name for name in ("username", "password", "token") if getattr(self, name)]
            if present:
                raise ConfigError(
                    f"{', '.join(present)} with protocol {self.protocol}: set protocol to SASL_SSL "
                    "or SASL_PLAINTEXT, and mechanism"
                )
        present = [name for name in _OF_TLS if getattr(self, name)]
        if present and not self.is_tls:
            raise ConfigError(
                f"TLS settings with protocol {self.protocol}: set protocol to SSL or SASL_SSL, or "
                f"leave out {', '.join(present)}"
            )
        if self.ssl_keyfile and not self.ssl_certfile:
            raise ConfigError(
                "ssl_keyfile without ssl_certfile: name the certificate of the key too"
            )

    def _validate_mechanism(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ConfigError(
                f"SASL mechanism {self.mechanism!r}: it is one of {', '.join(MECHANISMS)}"
            )
        if self.mechanism == "OAUTHBEARER":
            if self.token is None:
                raise ConfigError("OAUTHBEARER needs token: a function that gives a token")
        elif not self.username or self.password is None:
            raise ConfigError(f"{self.mechanism} needs username and password")

    @property
    def is_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of new connections; None: no TLS.

        Raises ConfigError for files that cannot be used.
        """
        if not self.is_tls:
            return None
        if self.ssl_context is not None:
            return self.ssl_context
        try:
            made = ssl.create_default_context(cafile=self.ssl_cafile, cadata=self.ssl_cadata)
            made.check_hostname = self.ssl_check_hostname
            if self.ssl_certfile:
                made.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, self._key_password)
            if self.ssl_certdata:
                _load_text(made, self.ssl_certdata, self._key_password)
        except (OSError, ValueError) as error:
            files = ", ".join(
                str(path) for path in (self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile) if path
            )
            hint = _OF_THE_KEY if getattr(error, "reason", "") is None else ""
            raise ConfigError(
                f"TLS cannot be set up with {files or 'the given PEM text'}: {error}{hint}"
            ) from error
        return made

    def _key_password(self) -> str:
        """A function, as OpenSSL would ask for a password of None on the terminal."""
        return self.ssl_password or ""

    def exchange(self) -> Exchange:
        """The authentication of one connection."""
        match self.mechanism:
            case "PLAIN":
                return _plain(self.username or "", self.password or "")
            case "OAUTHBEARER":
                assert self.token is not None
                return _oauthbearer(self.token, self.extensions)
            case mechanism:
                kind = BY_MECHANISM[mechanism or ""]
                return scram(
                    kind, self.username or "", self.password or "", secrets.token_urlsafe(24)
                )


PLAINTEXT: Final = Security()
"""Neither TLS nor SASL."""


def _load_text(context: ssl.SSLContext, pem: str, password: Callable[[], str]) -> None:
    """Load certificate chain and key, which OpenSSL takes from files only."""
    with NamedTemporaryFile("w", prefix="kohort-", suffix=".pem") as file:  # mode 0600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)


async def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


async def scram(kind: ScramMechanism, username: str, password: str, nonce: str) -> Exchange:
    """The exchange of RFC 5802 without channel binding."""
    client = ScramClient(kind, username, password, nonce)
    try:
        compute = client.challenged((yield client.first()))
        # Takes some milliseconds to a second: too long for the event loop that heartbeats use.
        client.verify((yield client.final(await asyncio.to_thread(compute))))
    except ScramError as error:
        raise AuthenticationError(str(error)) from None


async def _oauthbearer(source: TokenSource, extensions: Mapping[str, str]) -> Exchange:
    token = await token_of(source)
    all_extensions = {**extensions, **token.extensions}
    pairs = "".join(f"{name}={value}\x01" for name, value in all_extensions.items())
    refused = yield f"n,,\x01auth=Bearer {token.value}\x01{pairs}\x01".encode()
    if refused:
        raise AuthenticationError(
            f"OAUTHBEARER: the broker refused the token: {_status(refused)}; "
            "check its issuer, audience and lifetime"
        )


def _status(response: bytes) -> str:
    try:
        return str(json.loads(response).get("status", response.decode()))
    except (ValueError, AttributeError):
        return response.decode(errors="replace")
