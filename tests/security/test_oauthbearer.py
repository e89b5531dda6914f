"""SASL/OAUTHBEARER: the messages around a token, whatever the token is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.oauthbearer import BearerToken, InvalidTokenError, OAuthBearerServer
from kohort.security.sasl import Authenticated, Challenge, Failed

REFUSED = Challenge(b'{"status":"invalid_token"}', "OAUTHBEARER: it is bad")


def validate(token: str) -> BearerToken:
    if token != "good":
        raise InvalidTokenError("it is bad")
    return BearerToken(principal="alice", expires_ms=5_000)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=bearer  good\x01\x01",
        b"n,a=alice,\x01auth=Bearer good\x01\x01",
        b"n,,\x01traceId=a b\tc\x01auth=Bearer good\x01host=x=y\x01\x01",
    ],
)
def test_a_valid_token_gets_in(message: bytes) -> None:
    assert OAuthBearerServer(validate).step(message) == Authenticated("alice", expires_ms=5_000)


def test_a_refused_token_is_told_first_and_fails_then() -> None:
    server = OAuthBearerServer(validate)
    assert server.step(b"n,,\x01auth=Bearer secret-token\x01\x01") == REFUSED
    outcome = server.step(b"\x01")
    assert outcome == Failed("OAUTHBEARER: it is bad", '{"status":"invalid_token"}')


@pytest.mark.parametrize("message", [b"", b"\x01\x01", b"n,,\x01auth=Bearer good\x01\x01"])
def test_after_a_refused_token_nothing_else_is_taken(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    server.step(b"n,,\x01auth=Bearer other\x01\x01")
    assert isinstance(server.step(message), Failed)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 65_537 + b"\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,auth=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,a=b=c,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01key\x01\x01",
        "n,,\x01auth=Bearer good\x01k=ü\x01\x01".encode(),
        b"n,a=bob,\x01auth=Bearer good\x01\x01",
        b"n,a=bob=2C=3D,\x01auth=Bearer good\x01\x01",
    ],
)
def test_another_form_or_another_authorization_id_fails_at_once(message: bytes) -> None:
    assert isinstance(OAuthBearerServer(validate).step(message), Failed)


@given(st.lists(st.binary(), max_size=3))
def test_no_message_raises(messages: list[bytes]) -> None:
    server = OAuthBearerServer(validate)
    for message in messages:
        assert isinstance(server.step(message), Failed)
