"""Tokens for OAUTHBEARER, from functions and objects in the form of other clients.

`token` of `Security` is a function, which may be a coroutine function, or an object with a method
`token`, as aiokafka's and kafka-python's AbstractTokenProvider. It returns the token, the tuple
of confluent-kafka's `oauth_cb`, or a mapping or an object with these names. Lifetime and
principal are not sent: the broker reads them in the token.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.errors import ConfigError


class TokenProvider(Protocol):
    """An object whose method returns tokens; its optional `extensions` returns SASL extensions."""

    def token(self) -> Any:
        """The result of a function, or an awaitable of it."""
        ...


TokenSource: TypeAlias = Callable[[], Any] | Callable[[str], Any] | TokenProvider
"""Supplies a token for OAUTHBEARER before each authentication.

Its AuthenticationError is final; after any other error it is called again. A function that needs an
argument gets "", as `oauth_cb` gets the value of `sasl.oauthbearer.config`.
"""

_FORMS: Final = (
    "give a token as a string, (token, lifetime, principal, extensions), or a mapping or an object "
    "with these names"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, and the SASL extensions (KIP-342) that belong to it."""

    value: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


def validate_source(source: object) -> None:
    """Raise ConfigError unless `source` is a `TokenSource`."""
    _function(source)


async def token_of(source: TokenSource) -> Token:
    """The token that `source` supplies now.

    Raises AuthenticationError for an invalid token, and BrokerUnreachableError if `source` raises.
    """
    call = _function(source)
    more = getattr(source, "extensions", None)
    try:
        supplied = await _awaited(call())
        of_source = await _awaited(more()) if callable(more) else None
    except AuthenticationError:
        raise
    except Exception as error:
        raise BrokerUnreachableError(
            f"OAUTHBEARER: there is no token, its source raised {error!r}"
        ) from error
    value, extensions = _parts(supplied)
    return Token(value=_text(value), extensions=_pairs(of_source) | _pairs(extensions))


def _function(source: object) -> Callable[[], Any]:
    """The function to call without arguments. Raises ConfigError."""
    function = source if callable(source) else getattr(source, "token", None)
    if not callable(function):
        raise ConfigError(
            f"token is a {type(source).__name__}: it has to be a function, or an object with a "
            "method token"
        )
    match _required(function):
        case 0:
            return function
        case 1:
            return lambda: function("")
    raise ConfigError("token is a function with several arguments: it has to have none, or one")


def _required(function: Callable[..., Any]) -> int:
    """Number of arguments that a function cannot be called without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # one in C
        return 0
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(
        parameter.default is inspect.Parameter.empty and parameter.kind not in variable
        for parameter in parameters
    )


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _parts(supplied: Any) -> tuple[Any, Any]:
    """Token and extensions, of any type."""
    if isinstance(supplied, str):
        return supplied, None
    if isinstance(supplied, tuple | list):
        value, _lifetime, _principal, extensions = [*supplied, *[None] * 4][:4]
        return value, extensions
    if isinstance(supplied, Mapping):
        return supplied.get("token"), supplied.get("extensions")
    return getattr(supplied, "token", supplied), getattr(supplied, "extensions", None)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        is_what = "empty" if value == "" else f"a {type(value).__name__}"
        raise AuthenticationError(f"OAUTHBEARER: the token is {is_what}; {_FORMS}")
    return value


def _pairs(extensions: Any) -> dict[str, str]:
    pairs = {} if extensions is None else extensions
    if not isinstance(pairs, Mapping) or not all(
        isinstance(item, str) for pair in pairs.items() for item in pair
    ):
        raise AuthenticationError("OAUTHBEARER: extensions are no mapping of strings to strings")
    return dict(pairs)
