"""JSON Web Tokens (RFC 7519) as the bearer tokens of OAUTHBEARER, validated as Kafka does.

`JwtValidator` checks the signature with the keys of a JWKS document. `UnsecuredJwtValidator`
accepts tokens without signature, for development. The time is an argument.
"""

import base64
import binascii
import contextlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.errors import ConfigError
from kohort.security.oauthbearer import BearerToken, InvalidTokenError
from kohort.security.sasl import shown

MAX_KEY_ID_CHARS: Final = 1_000
"""Maximum length of a key id that is looked up."""
_MAX_KEYS: Final = 1_000
_LAST_MS: Final = 2**63 - 1
_OF_CURVE: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "secp256k1": "ES256K"}
_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS: Final = (*_OF_RSA, *_OF_CURVE.values(), "EdDSA")
"""Algorithms with a public key: tokens that use it as a shared secret are refused."""


class KeySet:
    """The public keys of a JWKS document (RFC 7517)."""

    def __init__(self, document: str | bytes) -> None:
        """Read the keys of known types; others are ignored.

        Raises ValueError if the document is invalid, ConfigError if PyJWT is not installed.
        """
        self._keys: dict[tuple[str | None, str], Any] = {}
        self._ids: set[str | None] = set()
        try:
            keys = json.loads(document)["keys"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("it is not a JSON document with keys") from None
        if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
            raise ValueError(f"its keys are not a list of at most {_MAX_KEYS}")
        for key in keys:
            if isinstance(key, dict) and key.get("use", "sig") == "sig":
                self._add(key)

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, key_id: str | None, algorithm: str) -> Any:
        """The key with this id, or without an id the only key; None if there is no such key.

        Raises InvalidTokenError if the key is for other algorithms.
        """
        if key_id is None:
            fitting = [
                key for (_, key_algorithm), key in self._keys.items() if key_algorithm == algorithm
            ]
            return fitting[0] if len(fitting) == 1 else None
        if key_id not in self._ids:
            return None
        key = self._keys.get((key_id, algorithm))
        if key is None:
            raise InvalidTokenError("its key is for another algorithm")
        return key

    def _add(self, key: Mapping[str, Any]) -> None:
        jwt = _pyjwt()
        key_id = key.get("kid")
        if not isinstance(key_id, str | None):
            return
        for algorithm in _algorithms(key):
            # cryptography raises its own errors; the other keys remain usable
            with contextlib.suppress(Exception):
                self._keys[key_id, algorithm] = jwt.PyJWK(dict(key), algorithm)
                self._ids.add(key_id)


def _algorithms(key: Mapping[str, Any]) -> tuple[str, ...]:
    match key:
        case {"alg": algorithm}:
            return (algorithm,) if algorithm in _ALGORITHMS else ()
        case {"kty": "RSA"}:
            return _OF_RSA
        case {"kty": "EC", "crv": str(curve)} if curve in _OF_CURVE:
            return (_OF_CURVE[curve],)
        case {"kty": "OKP"}:
            return ("EdDSA",)
    return ()


def _pyjwt() -> Any:
    try:
        import cryptography  # noqa: F401 - without it PyJWT supports no public keys
        import jwt
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER needs packages that are not installed: pip install 'kohort[oauth]'"
        ) from None
    return jwt


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """Required claims of a token."""

    audience: tuple[str, ...] = ()
    """The token must have one of these audiences; empty: any."""
    issuer: str | None = None
    skew_s: float = 30
    """Tolerated clock skew in seconds."""
    principal_claim: str = "sub"


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtValidator:
    """Validates signed tokens when called. Raises InvalidTokenError."""

    rules: JwtRules
    keys: Callable[[], KeySet]
    """Returns the current keys."""
    now_s: Callable[[], float]
    on_unknown_key: Callable[[str], None]
    """Called with an unknown key id: the issuer may have a new key."""

    def __call__(self, token: str) -> BearerToken:
        jwt = _pyjwt()
        try:
            header = jwt.get_unverified_header(token)
            key_id, algorithm = header.get("kid"), header.get("alg")
            if algorithm not in _ALGORITHMS:
                raise InvalidTokenError("it is not signed by a public key")
            payload = jwt.PyJWS().decode(token, self._key(key_id, algorithm), [algorithm])
            claims = json.loads(payload, object_pairs_hook=_each_once)
        except InvalidTokenError:
            raise
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise InvalidTokenError(f"the token is not valid: {shown(str(error))}") from None
        if not isinstance(claims, dict):
            raise InvalidTokenError("its claims are no JSON object")
        return validate_claims(claims, self.rules, self.now_s())

    def _key(self, key_id: str | None, algorithm: str) -> Any:
        key = self.keys().find(key_id, algorithm)
        if key is not None:
            return key
        if key_id is None:
            raise InvalidTokenError("it names no key, and not just one is of its algorithm")
        if len(key_id) <= MAX_KEY_ID_CHARS:
            self.on_unknown_key(key_id)
        raise InvalidTokenError(f"its key {shown(key_id)} is not known")


def validate_claims(claims: Mapping[str, Any], rules: JwtRules, now_s: float) -> BearerToken:
    """Check the claims of a token with a valid signature. Raises InvalidTokenError."""
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    not_before = _time(claims, "nbf") if "nbf" in claims else None
    if now_s - rules.skew_s >= expires:
        raise InvalidTokenError("it has expired")
    if not_before is not None and now_s + rules.skew_s < not_before:
        raise InvalidTokenError("it is not valid yet")
    if issued < 0 or expires < issued or (not_before is not None and expires < not_before):
        raise InvalidTokenError("it expires before it becomes valid")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidTokenError(f"its issuer is {shown(str(claims.get('iss')))}")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if rules.audience and not (
        all(isinstance(audience, str) for audience in named) and set(named) & set(rules.audience)
    ):
        raise InvalidTokenError(f"it is for the audience {shown(str(audience))}")
    _check_scopes(claims.get("scope"))
    return BearerToken(
        principal=_principal(claims, rules.principal_claim), expires_ms=_milliseconds(expires)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredJwtValidator:
    """Accepts unsigned tokens, which anyone can create: for development only."""

    now_s: Callable[[], float]
    principal_claim: str = "sub"

    def __call__(self, token: str) -> BearerToken:
        """Raises InvalidTokenError."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidTokenError("it is not an unsecured token of three parts, the last empty")
        header, claims = _decoded(parts[0]), _decoded(parts[1])
        if header.get("alg") != "none":
            raise InvalidTokenError("it is not an unsecured token")
        expires, now_s = _time(claims, "exp"), self.now_s()
        if expires <= now_s:
            raise InvalidTokenError("it has expired")
        if "iat" in claims and not _time(claims, "iat") <= min(now_s, expires):
            raise InvalidTokenError("it was issued in the future")
        return BearerToken(
            principal=_principal(claims, self.principal_claim), expires_ms=_milliseconds(expires)
        )


def _decoded(part: str) -> dict[str, Any]:
    try:
        decoded = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise InvalidTokenError("a part of it is no JSON object")
    return decoded


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate members, which parsers interpret differently."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise InvalidTokenError("a claim comes twice")
    return members


def _check_scopes(scope: object) -> None:
    scopes = scope if isinstance(scope, list) else [scope]
    names = [scope.strip() for scope in scopes if isinstance(scope, str)]
    if "" in names or len(set(names)) < len(names):
        raise InvalidTokenError("a scope is empty, or comes twice")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTokenError(f"its claim {name} is not a time")
    # Python's JSON accepts NaN, with which every comparison is false. An integer may be too large
    # for a float.
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidTokenError(f"its claim {name} is not a time")
    return value


def _principal(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidTokenError(f"its claim {shown(name)} is not a name")
    return value


def _milliseconds(seconds: float) -> int:
    # A float must not become infinite: then it cannot become an integer.
    return min(int(min(seconds, _LAST_MS) * 1000), _LAST_MS)
