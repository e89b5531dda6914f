"""Which tokens are accepted: signatures, keys and claims."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.jwt import JwtRules, JwtValidator, KeySet, UnsecuredJwtValidator
from kohort.security.oauthbearer import BearerToken, InvalidTokenError
from security.tokens import NOW_S, claims, jwks, private_key, public_jwk, token

ALICE = BearerToken(principal="alice", expires_ms=(NOW_S + 300) * 1000)
NO_RULES = JwtRules()


def validator(
    *keys: dict[str, object], rules: JwtRules = NO_RULES, unknown: list[str] | None = None
) -> JwtValidator:
    known = KeySet(jwks(*(keys or (public_jwk("rsa", kid="1"),))))
    asked = [] if unknown is None else unknown
    return JwtValidator(
        rules=rules, keys=lambda: known, now_s=lambda: NOW_S, on_unknown_key=asked.append
    )


def unsecured(header: object, payload: object, signature: str = "") -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
        for each in (header, payload)
    )
    return ".".join((*parts, signature))


def signed(payload: object, key: str = "rsa", **header: object) -> str:
    """A token by RS256 with any header; a text is the payload as it is."""
    content = payload if isinstance(payload, str) else json.dumps(payload)
    return jwt.PyJWS().encode(content.encode(), private_key(key), "RS256", headers=header)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS384"])
def test_a_token_that_is_signed_with_a_known_key_is_accepted(algorithm: str) -> None:
    assert validator()(token(algorithm=algorithm)) == ALICE


@pytest.mark.parametrize(("key", "algorithm"), [("ec", "ES256"), ("ed", "EdDSA")])
def test_keys_of_other_kinds(key: str, algorithm: str) -> None:
    check = validator(public_jwk(key, kid="1"), public_jwk("rsa", kid="2"))
    assert check(token(key, algorithm=algorithm)) == ALICE


def test_without_a_key_id_the_only_key_of_the_algorithm_is_meant() -> None:
    rsa, ec = public_jwk("rsa", kid="1"), public_jwk("ec", kid="2")
    for keys in ((rsa,), (public_jwk("rsa"),), (rsa, ec), (rsa, public_jwk("rsa2", alg="RS512"))):
        assert validator(*keys)(token(kid=None)) == ALICE
    for keys in ((ec,), (rsa, public_jwk("rsa2", kid="2"))):
        with pytest.raises(InvalidTokenError, match="names no key"):
            validator(*keys)(token(kid=None))


def test_a_token_that_is_not_signed_by_its_key_is_refused() -> None:
    good = token()
    changed = good[:-8] + ("A" * 8 if good[-8:] != "A" * 8 else "B" * 8)
    for bad in (changed, token("rsa2"), good.rpartition(".")[0] + ".", good + "."):
        with pytest.raises(InvalidTokenError):
            validator()(bad)


def test_a_signature_is_never_made_with_a_public_key_as_the_secret() -> None:
    pem = (
        private_key("rsa")
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    signed = unsecured({"alg": "HS256", "kid": "1"}, claims()).rstrip(".")
    digest = base64.urlsafe_b64encode(hmac.digest(pem, signed.encode(), hashlib.sha256))
    forged = f"{signed}.{digest.decode().rstrip('=')}"
    for bad in (forged, unsecured({"alg": "none", "kid": "1"}, claims())):
        with pytest.raises(InvalidTokenError, match="not signed by a public key"):
            validator()(bad)
    symmetric = {"kty": "oct", "k": "c2VjcmV0", "kid": "1"}
    assert len(KeySet(jwks(symmetric, symmetric | {"alg": "HS256"}))) == 0


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": public_jwk("rsa2")},
        {"jku": "https://mallory.test/keys", "x5u": "https://mallory.test/chain"},
        {"kid": "../../../dev/null"},
        {"kid": "1' OR '1'='1"},
        {"kid": ""},
    ],
)
def test_a_header_brings_no_key(header: dict[str, object]) -> None:
    with pytest.raises(InvalidTokenError):
        validator()(signed(claims(), "rsa2", **({"kid": "1"} | header)))


@pytest.mark.parametrize("header", [{"crit": ["x"], "x": 1}, {"b64": False}])
def test_a_header_does_not_change_what_is_signed(header: dict[str, object]) -> None:
    with pytest.raises(InvalidTokenError):
        validator()(signed(claims(), kid="1", **header))


@pytest.mark.parametrize("alg", ["nOnE", "", None, ["RS256"], {"RS256": 1}, 256])
def test_an_odd_algorithm_is_none(alg: object) -> None:
    with pytest.raises(InvalidTokenError):
        validator()(unsecured({"alg": alg, "kid": "1"}, claims()))


def test_a_signature_of_zeros_is_none() -> None:
    """CVE-2022-21449 of Java: it fitted everything."""
    zeros = base64.urlsafe_b64encode(bytes(64)).decode().rstrip("=")
    with pytest.raises(InvalidTokenError):
        validator(public_jwk("ec", kid="1"))(
            unsecured({"alg": "ES256", "kid": "1"}, claims(), zeros)
        )


def test_a_token_in_a_token_is_none() -> None:
    with pytest.raises(InvalidTokenError):
        validator()(signed(token(), kid="1", cty="JWT"))


@pytest.mark.parametrize("more", ['"sub": "mallory"', '"x": {"y": 1, "y": 2}'])
def test_a_claim_comes_once(more: str) -> None:
    twice = f"{{{more}, {json.dumps(claims())[1:]}"
    with pytest.raises(InvalidTokenError, match="twice"):
        validator()(signed(twice, kid="1"))


def test_a_key_is_used_for_its_algorithm_only() -> None:
    for key in (public_jwk("rsa", kid="1", alg="RS512"), public_jwk("ec", kid="1")):
        with pytest.raises(InvalidTokenError, match="another algorithm"):
            validator(key)(token())
    assert len(KeySet(jwks(public_jwk("rsa", use="enc", kid="1")))) == 0


def test_an_unknown_key_is_asked_for() -> None:
    unknown: list[str] = []
    check = validator(unknown=unknown)
    for kid in ("2", "3" * 1_000, "4" * 1_001):
        with pytest.raises(InvalidTokenError):
            check(token(kid=kid))
    assert unknown == ["2", "3" * 1_000]


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29, "iat": NOW_S - 100},
        {"iat": NOW_S + 200},
        {"nbf": NOW_S + 30},
        {"exp": NOW_S + 0.5},
        {"aud": ["x", "us"], "iss": "them"},
        {"aud": "us", "iss": "them"},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
    ],
)
def test_claims_that_are_accepted(changes: dict[str, object]) -> None:
    given = {"aud": "us", "iss": "them"} | changes
    rules = JwtRules(audience=("us", "all"), issuer="them")
    found = validator(rules=rules)(token(**given))
    assert found.principal == "alice"
    assert found.expires_ms == int(given.get("exp", NOW_S + 300) * 1000)  # type: ignore[call-overload]


def test_a_time_may_be_of_any_size() -> None:
    last = 2**63 - 1
    for expires in (10**400, 1e308):
        good = unsecured({"alg": "none"}, claims(exp=expires))
        assert validator()(token(exp=expires)).expires_ms == last
        assert UnsecuredJwtValidator(now_s=lambda: NOW_S)(good).expires_ms == last


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"exp": NOW_S - 30},
        {"exp": -1, "iat": -2},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": "soon"},
        {"iat": None},
        {"iat": NOW_S + 400},
        {"nbf": NOW_S + 31},
        {"sub": None},
        {"sub": "  "},
        {"sub": ["alice"]},
        {"aud": None},
        {"aud": "others"},
        {"aud": [["us"]]},
        {"aud": ["us", 7]},
        {"iat": -1},
        {"scope": " "},
        {"scope": ["read", ""]},
        {"scope": ["read", "read"]},
        {"iss": None},
        {"iss": "others"},
    ],
)
def test_claims_that_are_refused(changes: dict[str, object]) -> None:
    given = {"aud": "us", "iss": "them"} | changes
    payload = json.dumps({name: value for name, value in (claims() | given).items() if value})
    with pytest.raises(InvalidTokenError):
        validator(rules=JwtRules(audience=("us",), issuer="them"))(signed(payload, kid="1"))


def test_the_name_can_come_from_another_claim() -> None:
    check = validator(rules=JwtRules(principal_claim="client"))
    assert check(token(client="reports")).principal == "reports"


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"keys": 5}', '{"keys": {}}', "[" * 100_000])
def test_a_document_that_is_no_key_set(document: str) -> None:
    with pytest.raises(ValueError):
        KeySet(document)


def test_keys_that_cannot_be_read_are_left_out() -> None:
    odd = [5, {}, {"kty": "RSA"}, {"kty": "EC", "crv": []}, public_jwk("rsa", kid=7)]
    assert len(KeySet(json.dumps({"keys": [*odd, public_jwk("rsa", kid="1")]}))) == 1


@given(st.text())
def test_any_text_is_at_most_an_invalid_token(text: str) -> None:
    for check in (validator(), UnsecuredJwtValidator(now_s=lambda: NOW_S)):
        with pytest.raises(InvalidTokenError):
            check(text)


def test_an_unsecured_token_is_accepted_by_its_own_validator_only() -> None:
    check = UnsecuredJwtValidator(now_s=lambda: NOW_S)
    assert check(unsecured({"alg": "none"}, claims())) == ALICE
    assert check(unsecured({"alg": "none"}, claims(iat=None))) == ALICE
    with pytest.raises(InvalidTokenError):
        check(token())


@pytest.mark.parametrize(
    "bad",
    [
        unsecured({"alg": "none"}, claims(), "x"),
        unsecured({"alg": "RS256"}, claims()),
        unsecured([], claims()),
        unsecured({"alg": "none"}, []),
        unsecured({"alg": "none"}, claims(exp=NOW_S)),
        unsecured({"alg": "none"}, claims(exp=None)),
        unsecured({"alg": "none"}, claims(iat=NOW_S + 1)),
        unsecured({"alg": "none"}, claims(sub=None)),
        "a.b",
    ],
)
def test_unsecured_tokens_that_are_refused(bad: str) -> None:
    with pytest.raises(InvalidTokenError):
        UnsecuredJwtValidator(now_s=lambda: NOW_S)(bad)
