"""Builds the SASL of listeners from settings and users."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from kohort.errors import ConfigError
from kohort.runtime.clock import Clock
from kohort.security import jwt, oauthbearer, plain
from kohort.security.jaas import plain_users
from kohort.security.oauthbearer import OAuthBearerServer, Validate
from kohort.security.plain import PlainServer
from kohort.security.sasl import SaslServer
from kohort.security.scram import BY_MECHANISM, ScramMechanism, ScramServer, ScramUsers
from kohort.server.config import Config
from kohort.server.net import FailedLogins, Sasl
from kohort.server.sasl.jwks import Jwks, validate_url

_NONCE_BYTES = 24

logger = logging.getLogger("kohort.sasl")


class SaslListeners:
    """Makes the `Sasl` of each listener of a server."""

    def __init__(self, config: Config, users: Callable[[], ScramUsers], clock: Clock) -> None:
        self._config = config
        self._users = users
        self._clock = clock
        self._failed_logins = FailedLogins(
            config["max.failed.authentications.per.ip"], time.monotonic
        )
        self._jwks: dict[str, Jwks] = {}
        """By URL."""
        self._opened = AsyncExitStack()

    async def open(self, listener: str) -> Sasl:
        """The SASL of a listener. Raises ConfigError."""
        value_of = partial(self._config.of_listener, listener)
        mechanisms = value_of("sasl.enabled.mechanisms")
        if not mechanisms:
            raise ConfigError(f"sasl.enabled.mechanisms: listener {listener} needs one")
        return Sasl(
            mechanisms={
                mechanism: await self._new_server(listener, mechanism) for mechanism in mechanisms
            },
            max_reauth_ms={
                mechanism: value_of("connections.max.reauth.ms", mechanism)
                for mechanism in mechanisms
            },
            clock=self._clock,
            failed_logins=self._failed_logins,
            receive_bytes=value_of("sasl.server.max.receive.size"),
            failure_delay_ms=value_of("connection.failed.authentication.delay.ms"),
            timeout_ms=value_of("sasl.authentication.timeout.ms"),
        )

    async def close(self) -> None:
        """Fetch no keys any more. Idempotent."""
        await self._opened.aclose()

    async def _new_server(self, listener: str, mechanism: str) -> Callable[[], SaslServer]:
        value_of = partial(self._config.of_listener, listener, mechanism=mechanism)
        if mechanism in BY_MECHANISM:
            return partial(self._new_scram_server, BY_MECHANISM[mechanism])
        if mechanism == plain.MECHANISM:
            return partial(PlainServer, _plain_users(listener, value_of("sasl.jaas.config")))
        assert mechanism == oauthbearer.MECHANISM
        return partial(OAuthBearerServer, await self._validator(listener, value_of))

    def _new_scram_server(self, kind: ScramMechanism) -> ScramServer:
        return ScramServer(kind, self._users(), secrets.token_urlsafe(_NONCE_BYTES))

    async def _validator(self, listener: str, value_of: Callable[[str], Any]) -> Validate:
        url = value_of("sasl.oauthbearer.jwks.endpoint.url")
        principal = value_of("sasl.oauthbearer.sub.claim.name")
        if url is None:
            if not value_of("sasl.oauthbearer.unsecured"):
                raise ConfigError(
                    f"sasl.oauthbearer.jwks.endpoint.url: listener {listener} needs it for "
                    "OAUTHBEARER, or sasl.oauthbearer.unsecured for development"
                )
            return jwt.UnsecuredJwtValidator(now_s=self._now_s, principal_claim=principal)
        validate_url(url, self._config["org.apache.kafka.sasl.oauthbearer.allowed.urls"])
        for claim in ("audience", "issuer"):
            _require_expected(listener, claim, value_of)
        keys = await self._keys(url, value_of("sasl.oauthbearer.jwks.endpoint.refresh.ms"))
        rules = jwt.JwtRules(
            audience=value_of("sasl.oauthbearer.expected.audience"),
            issuer=value_of("sasl.oauthbearer.expected.issuer") or None,
            skew_s=value_of("sasl.oauthbearer.clock.skew.seconds"),
            principal_claim=principal,
        )
        return jwt.JwtValidator(
            rules=rules,
            keys=lambda: keys.keys,
            now_s=self._now_s,
            on_unknown_key=keys.ask_for,
        )

    async def _keys(self, url: str, refresh_ms: int) -> Jwks:
        if url not in self._jwks:
            self._jwks[url] = keys = Jwks(url, refresh_ms, self._clock)
            self._opened.push_async_callback(keys.close)
            await keys.start()
        return self._jwks[url]

    def _now_s(self) -> float:
        return self._clock.timestamp() / 1000


def _require_expected(listener: str, claim: str, value_of: Callable[[str], Any]) -> None:
    """Raises ConfigError if no value of the claim is set, as Kafka does since 4.4.

    Logs a warning if any value is allowed instead.
    """
    expected = f"sasl.oauthbearer.expected.{claim}"
    allow = f"sasl.oauthbearer.allow.unverified.{claim}"
    if value_of(expected):
        return
    if not value_of(allow):
        raise ConfigError(
            f"{expected}: listener {listener} needs it for OAUTHBEARER, or {allow}=true, which "
            f"accepts tokens regardless of their {claim}"
        )
    logger.warning(
        "listener %s accepts bearer tokens regardless of their %s; %s is not set",
        listener,
        claim,
        expected,
    )


def _plain_users(listener: str, text: str | None) -> Mapping[str, str]:
    name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    if text is None:
        raise ConfigError(f"{name}: PLAIN needs it, for its users")
    try:
        return plain_users(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
