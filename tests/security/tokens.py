"""Keys and tokens as an issuer has them."""

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_S = 1_700_000_000


@cache
def private_key(name: str) -> Any:
    """A new key: RSA, or of the kind that the name begins with ("ec", "ed")."""
    if name.startswith("ec"):
        return ec.generate_private_key(ec.SECP256R1())
    if name.startswith("ed"):
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_jwk(name: str, **more: object) -> dict[str, Any]:
    public = private_key(name).public_key()
    if name.startswith("ec"):
        return ECAlgorithm.to_jwk(public, as_dict=True) | more
    if name.startswith("ed"):
        return OKPAlgorithm.to_jwk(public, as_dict=True) | more
    return RSAAlgorithm.to_jwk(public, as_dict=True) | more


def jwks(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": keys})


def claims(**changes: object) -> dict[str, Any]:
    """Usual claims; a change to None leaves a claim out."""
    usual = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 300}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def token(
    key: str = "rsa", kid: str | None = "1", algorithm: str = "RS256", **changes: object
) -> str:
    return jwt.encode(
        claims(**changes),
        private_key(key),
        algorithm,
        headers=None if kid is None else {"kid": kid},
    )
