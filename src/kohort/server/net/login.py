"""SASL on one connection: what a client may send until it has authenticated, and when again.

| state | what is taken | then |
|---|---|---|
| START | ApiVersions, SaslHandshake | VERSIONS if ApiVersions has no error; TOKENS or MESSAGES |
| VERSIONS | SaslHandshake | TOKENS after v0, else MESSAGES |
| TOKENS | frames that are messages of the mechanism | DONE, or closed |
| MESSAGES | SaslAuthenticate; others get ILLEGAL_SASL_STATE | DONE, or closed |
| DONE | everything; SaslHandshake begins again if the session has an end (KIP-368) | |
| OTHER_MECHANISM | nothing: another mechanism was asked for the second time | closed |

Anything else closes the connection, unparsed. A client that fails gets its response
`connection.failed.authentication.delay.ms` later, and is disconnected.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from kohort.errors import ErrorCode
from kohort.protocol.apis import API_VERSIONS, BY_NAME
from kohort.protocol.framing import CONTENT, MalformedError
from kohort.runtime.clock import Clock
from kohort.security import USER, KafkaPrincipal, Peer
from kohort.security.sasl import Authenticated, Challenge, Failed, SaslServer, shown
from kohort.server.net.failed_logins import FailedLogins
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.request_memory import RequestMemory
from kohort.server.net.request_metrics import RequestMetrics

SASL_HANDSHAKE: Final = BY_NAME["sasl_handshake"].key
SASL_AUTHENTICATE: Final = BY_NAME["sasl_authenticate"].key

SASL_AUTHENTICATE_SINCE: Final = 1
"""Version of SaslHandshake since which messages are SaslAuthenticate requests."""
MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
MEMORY_BYTES: Final = 64 * 1024 * 1024
"""For frames of more than 64 KiB before authentication, which no usual client sends."""
MAX_PENDING: Final = 2_000
"""Connections of a listener that have not authenticated; one takes 50 KiB with TLS."""


class LoginState(Enum):
    START = auto()
    VERSIONS = auto()
    TOKENS = auto()
    MESSAGES = auto()
    DONE = auto()
    OTHER_MECHANISM = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """Authentication of the clients of a listener."""

    mechanisms: Mapping[str, Callable[[], SaslServer]] = field(repr=False)
    """Functions that begin an authentication, by mechanism; some know passwords."""
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """Longest session, by mechanism; 0 or none: without end."""
    clock: Clock
    failed_logins: FailedLogins
    receive_bytes: int = 524_288
    """Size of the largest frame before authentication, and during another one."""
    failure_delay_ms: int = 100
    timeout_ms: int = 30_000
    """Time that a new connection has to authenticate."""
    memory: RequestMemory = field(default_factory=lambda: RequestMemory(MEMORY_BYTES))
    """For the large frames of all connections that have not authenticated."""
    max_pending: int = MAX_PENDING
    pending: "dict[Login, None]" = field(default_factory=dict, repr=False)
    """Logins of connections that have not authenticated, oldest first."""


class LoginConnection(Protocol):
    """The connection that a login is for."""

    @property
    def peer(self) -> Peer: ...

    def authenticates(self) -> None:
        """The frames from now on are messages of an authentication, which are small."""
        ...

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """The requests from now on are those of `principal`."""
        ...

    def close_with_reason(self, why: str, level: int = logging.INFO) -> None:
        """Send the responses so far, close, and log `why`."""
        ...

    def drop(self, why: str) -> None:
        """Close at once, and log `why`."""
        ...


class HandshakeAnswer(NamedTuple):
    """Response to a SaslHandshake."""

    code: ErrorCode
    mechanisms: Iterable[str]
    has_failed: bool = False
    """Whether `fail` sends the response later, and closes the connection."""


class AuthenticateAnswer(NamedTuple):
    """Response to a SaslAuthenticate, or to a token."""

    code: ErrorCode = ErrorCode.none
    error_message: str = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    has_failed: bool = False
    """Whether `fail` sends the response later, and closes the connection."""


class Login:
    """The SASL of one connection."""

    def __init__(
        self,
        sasl: Sasl,
        connection: LoginConnection,
        metrics: RequestMetrics,
        log: RateLimitedLog,
    ) -> None:
        self._sasl = sasl
        self._connection = connection
        self._metrics = metrics
        self._log = log
        self._has_failed = False
        self._state = LoginState.START
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._user: str | None = None
        """Principal that has authenticated."""
        self._expires_ms: float | None = None
        self._handshake_at_ms: float | None = None
        """When the last authentication after the first one began."""
        self._timer = asyncio.get_running_loop().call_later(
            sasl.timeout_ms / 1000, self._time_is_over
        )
        sasl.pending[self] = None
        if len(sasl.pending) > sasl.max_pending:
            next(iter(sasl.pending)).give_way()

    def __repr__(self) -> str:
        return f"<Login {self._user or 'nobody'} {self._state.name}>"

    # What the connection asks

    @property
    def is_done(self) -> bool:
        """Whether every request is admitted now."""
        return self._state is LoginState.DONE and not self._is_expired

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a message of the mechanism, without a header."""
        return self._state is LoginState.TOKENS

    def admits(self, frame: bytes) -> bool:
        """Whether a request is dispatched; if not, it gets ILLEGAL_SASL_STATE.

        Raises MalformedError if it is not even to be parsed.
        """
        api_key = int.from_bytes(frame[CONTENT : CONTENT + 2], "big")
        match self._state:
            case LoginState.START if self._sasl.failed_logins.is_blocked(
                self._connection.peer.host
            ):
                raise MalformedError("too many failed authentications from its address")
            case LoginState.START if api_key == API_VERSIONS:
                self._state = LoginState.VERSIONS
                return True
            case LoginState.START | LoginState.VERSIONS if api_key == SASL_HANDSHAKE:
                return True
            case LoginState.MESSAGES:
                return api_key == SASL_AUTHENTICATE
            case LoginState.DONE if api_key == SASL_HANDSHAKE:
                return True
            case LoginState.DONE:
                self._metrics.sessions_expired += 1
                raise MalformedError("its SASL session has expired")
            case LoginState.OTHER_MECHANISM:
                raise MalformedError("it asked for another SASL mechanism than before")
        raise MalformedError("a request before authentication")

    def responded(self, api_key: int, errors: Iterable[int]) -> None:
        """A request has got its response."""
        if api_key == API_VERSIONS and self._state is LoginState.VERSIONS and any(errors):
            self._state = LoginState.START

    def give_way(self) -> None:
        """Close the connection for others: it has had more time than they."""
        self._sasl.pending.pop(self, None)
        self._connection.drop("too many connections have not authenticated")

    def close(self) -> None:
        """The connection is lost. Idempotent."""
        self._timer.cancel()
        self._sasl.pending.pop(self, None)

    # What the requests do

    def handshake(self, version: int, mechanism: str) -> HandshakeAnswer:
        """Begin with a mechanism.

        Raises MalformedError for one that is not served, if the client has authenticated before.
        """
        offered = tuple(self._sasl.mechanisms)
        if self._state is LoginState.DONE and not self._may_reauthenticate():
            return HandshakeAnswer(ErrorCode.illegal_sasl_state, ())
        new_server = self._sasl.mechanisms.get(mechanism)
        if new_server is None:
            reason = f"{shown(mechanism)} is not one of {', '.join(offered)}"
            self._note_failure(reason)
            if self._user is not None:
                raise MalformedError(reason)
            return HandshakeAnswer(ErrorCode.unsupported_sasl_mechanism, offered, has_failed=True)
        if self._user is not None and mechanism != self._mechanism:
            self._state = LoginState.OTHER_MECHANISM
        else:
            self._mechanism, self._server = mechanism, new_server()
            self._connection.authenticates()
            framed = version >= SASL_AUTHENTICATE_SINCE
            self._state = LoginState.MESSAGES if framed else LoginState.TOKENS
        return HandshakeAnswer(ErrorCode.none, offered)

    def authenticate(self, message: bytes) -> AuthenticateAnswer:
        """Take a message of the mechanism."""
        if self._server is None:
            return AuthenticateAnswer(
                ErrorCode.illegal_sasl_state,
                "SaslAuthenticate request received after successful authentication",
            )
        match self._server.step(message):
            case Challenge(challenge, failure):
                if failure is not None:
                    self._note_failure(failure)
                return AuthenticateAnswer(auth_bytes=challenge)
            case Failed(reason, text):
                return self._failed(reason, text)
            case Authenticated(user) if self._user not in (None, user):
                return self._failed(
                    "another principal than before",
                    f"Cannot change principals during re-authentication from {USER}.{self._user}: "
                    f"{USER}.{user}",
                )
            case Authenticated() as authenticated:
                return self._succeeded(authenticated)

    async def fail(self, respond: Callable[[], None] | None = None) -> None:
        """After the delay, respond and close the connection."""
        await asyncio.sleep(self._sasl.failure_delay_ms / 1000)
        if respond is not None:
            respond()
        self._connection.close_with_reason("authentication failed", logging.DEBUG)

    # Parts

    @property
    def _is_expired(self) -> bool:
        return self._expires_ms is not None and self._sasl.clock.now() >= self._expires_ms

    def _may_reauthenticate(self) -> bool:
        now, last = self._sasl.clock.now(), self._handshake_at_ms
        too_soon = last is not None and now - last < MIN_REAUTHENTICATION_INTERVAL_MS
        if self._expires_ms is None or too_soon:
            return False
        self._handshake_at_ms = now
        return True

    def _failed(self, reason: str, text: str | None) -> AuthenticateAnswer:
        self._note_failure(reason)
        action = "authentication" if self._user is None else "re-authentication"
        usual = (
            f"Authentication failed during {action} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        return AuthenticateAnswer(
            ErrorCode.sasl_authentication_failed,
            usual if text is None else text,
            has_failed=True,
        )

    def _note_failure(self, reason: str) -> None:
        """Count and log a failure, the first one of the connection."""
        if self._has_failed:
            return
        self._has_failed = True
        host = self._connection.peer.host
        self._metrics.logins_failed += 1
        self._sasl.failed_logins.count(host)
        self._log.log(logging.WARNING, "authentication from %s failed: %s", host, reason)

    def _succeeded(self, authenticated: Authenticated) -> AuthenticateAnswer:
        self._metrics.logins += 1
        self._timer.cancel()
        self._sasl.pending.pop(self, None)
        self._state, self._server, self._user = LoginState.DONE, None, authenticated.user
        lifetime_ms = self._lifetime_ms(authenticated.expires_ms)
        self._expires_ms = None if lifetime_ms is None else self._sasl.clock.now() + lifetime_ms
        self._connection.authenticated(KafkaPrincipal(USER, authenticated.user))
        return AuthenticateAnswer(
            auth_bytes=authenticated.message, session_lifetime_ms=lifetime_ms or 0
        )

    def _lifetime_ms(self, expires_ms: int | None) -> int | None:
        longest = self._sasl.max_reauth_ms.get(self._mechanism, 0)
        limits = [longest] if longest > 0 else []
        if expires_ms is not None:
            limits.append(max(expires_ms - self._sasl.clock.timestamp(), 0))
        return min(limits, default=None)

    def _time_is_over(self) -> None:
        self._note_failure(f"it took longer than {self._sasl.timeout_ms} ms")
        self._connection.close_with_reason("authentication failed", logging.DEBUG)
