"""The SASL of scenarios against our mechanisms, which share no code with it."""

import base64
from functools import partial

import pytest

from kohort.security.jwt import UnsecuredJwtValidator
from kohort.security.oauthbearer import OAuthBearerServer
from kohort.security.plain import PlainServer
from kohort.security.sasl import Authenticated, Challenge, Failed
from kohort.security.scram import BY_MECHANISM, ScramServer, ScramUsers, credential_of
from kohort_conformance.logins import (
    ITERATIONS,
    SALT,
    SCRAM,
    ScramClient,
    bearer,
    claims_of,
    plain_token,
    salted,
    unsigned,
)
from kohort_conformance.wire import password


def scram_server(mechanism: str) -> ScramServer:
    kind, users = BY_MECHANISM[mechanism], ScramUsers()
    key = salted(mechanism, "secret", SALT, ITERATIONS)
    users.put("alice", kind, credential_of(kind, key, SALT, ITERATIONS))
    return ScramServer(kind, users, "server")


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_login_by_scram_and_what_is_shown_of_it(mechanism: str) -> None:
    client, server = ScramClient(mechanism), scram_server(mechanism)
    challenge = server.step(client.first("alice"))
    assert isinstance(challenge, Challenge)
    assert client.shown(challenge.message) == "r=<both nonces>,s=<salt>,i=4096"
    end = server.step(client.final(challenge.message, "secret"))
    assert isinstance(end, Authenticated)
    assert client.shown(end.message) == "v=<signature>"
    wrong = b"v=" + base64.b64encode(bytes(32))
    assert client.shown(wrong) == wrong.decode()


@pytest.mark.parametrize("how", [{"binding": "AAAA"}, {"extra": ",x=y"}])
def test_odd_final_messages_of_a_client_log_in(how: dict[str, str]) -> None:
    client, server = ScramClient("SCRAM-SHA-256"), scram_server("SCRAM-SHA-256")
    challenge = server.step(client.first("alice", extra=",a=b"))
    assert isinstance(challenge, Challenge)
    final = partial(client.final, challenge.message, "secret")
    assert isinstance(server.step(final(**how)), Authenticated)


@pytest.mark.parametrize("how", [{"nonce": "other"}, {"secret": "wrong"}])
def test_wrong_final_messages_of_a_client_fail(how: dict[str, str]) -> None:
    client, server = ScramClient("SCRAM-SHA-512"), scram_server("SCRAM-SHA-512")
    challenge = server.step(client.first("alice"))
    assert isinstance(challenge, Challenge)
    assert client.shown(b"r=x,s=AAAA,i=1") == "r=<another nonce>,s=<another salt>,i=1"
    final = client.final(challenge.message, **{"secret": "secret", **how})
    assert isinstance(server.step(final), Failed)


def test_a_login_by_plain() -> None:
    server = PlainServer({"alice": password("alice")})
    assert server.step(plain_token("alice")) == Authenticated("alice")


def test_a_login_by_a_bearer_token() -> None:
    claims = claims_of("alice", exp=5, more=None)
    server = OAuthBearerServer(UnsecuredJwtValidator(now_s=lambda: claims["iat"]))
    assert "more" not in claims
    fresh = claims | {"exp": claims["iat"] + 9}
    authenticated = server.step(bearer(unsigned(fresh), "alice", "key=value\x01"))
    assert authenticated == Authenticated("alice", expires_ms=fresh["exp"] * 1000)
