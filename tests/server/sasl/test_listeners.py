"""The SASL of a listener, from its settings."""

from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.security.jaas import PLAIN_LOGIN_MODULE
from kohort.security.sasl import Authenticated, Challenge, Failed
from kohort.security.scram import ScramUsers
from kohort.server.config import Config
from kohort.server.net import Sasl
from kohort.server.sasl import SaslListeners
from security.tokens import NOW_S, jwks, public_jwk, token
from server.handlers.bench import HandClock

INTERNAL = "listener.name.internal"
USERS = f'{PLAIN_LOGIN_MODULE} required user_alice="secret";'
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
EXPECTED = "sasl.oauthbearer.expected"
UNVERIFIED = "sasl.oauthbearer.allow.unverified"


async def sasl_of(settings: dict[str, object], listener: str = "INTERNAL") -> Sasl:
    """The SASL of one of two listeners."""
    both = {
        "listeners": "INTERNAL://127.0.0.1:9092,OTHER://127.0.0.1:9093",
        "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT",
    }
    clock = HandClock()
    clock.ms = NOW_S * 1000
    listeners = SaslListeners(Config(both | settings), ScramUsers, clock)
    try:
        return await listeners.open(listener)
    finally:
        await listeners.close()


async def test_the_defaults_of_sasl_are_those_of_kafka() -> None:
    sasl = await sasl_of({})
    assert list(sasl.mechanisms) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert (sasl.receive_bytes, sasl.failure_delay_ms, sasl.timeout_ms) == (524_288, 100, 30_000)
    assert set(sasl.max_reauth_ms.values()) == {0}


async def test_settings_of_a_listener_and_of_a_mechanism_of_it() -> None:
    settings: dict[str, object] = {
        "connections.max.reauth.ms": 1_000,
        f"{INTERNAL}.connections.max.reauth.ms": 2_000,
        f"{INTERNAL}.scram-sha-256.connections.max.reauth.ms": 3_000,
        f"{INTERNAL}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{INTERNAL}.plain.sasl.jaas.config": USERS,
    }
    sasl = await sasl_of(settings)
    assert sasl.max_reauth_ms == {"PLAIN": 2_000, "SCRAM-SHA-256": 3_000}
    assert sasl.mechanisms["PLAIN"]().step(b"\0alice\0secret") == Authenticated("alice")
    other = await sasl_of(settings, "OTHER")
    assert other.max_reauth_ms == {"SCRAM-SHA-256": 1_000, "SCRAM-SHA-512": 1_000}


async def test_each_authentication_has_a_nonce_of_its_own() -> None:
    sasl = await sasl_of({})
    new = sasl.mechanisms["SCRAM-SHA-256"]
    assert new().step(b"n,,n=a,r=x") != new().step(b"n,,n=a,r=x")


async def test_tokens_are_validated_by_the_keys_and_settings(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(jwks(public_jwk("rsa", kid="1")))
    sasl = await sasl_of(
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            JWKS_URL: keys.as_uri(),
            ALLOWED: keys.as_uri(),
            f"{EXPECTED}.audience": "us,all",
            f"{EXPECTED}.issuer": "them",
            "sasl.oauthbearer.sub.claim.name": "client",
            "sasl.oauthbearer.clock.skew.seconds": 0,
        }
    )

    def outcome(**claims: object) -> object:
        usual = {"aud": "us", "iss": "them", "client": "reports"}
        message = f"n,,\x01auth=Bearer {token(**usual | claims)}\x01\x01"
        return sasl.mechanisms["OAUTHBEARER"]().step(message.encode())

    assert outcome() == Authenticated("reports", expires_ms=(NOW_S + 300) * 1000)
    for wrong in ({"aud": "x"}, {"iss": "x"}, {"client": None}, {"exp": NOW_S - 1}):
        assert isinstance(outcome(**wrong), Challenge)


@pytest.fixture
def bearer(tmp_path: Path) -> dict[str, object]:
    """Settings of OAUTHBEARER with keys, without what tokens must say."""
    keys = tmp_path / "keys.json"
    keys.write_text(jwks(public_jwk("rsa", kid="1")))
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        JWKS_URL: keys.as_uri(),
        ALLOWED: keys.as_uri(),
    }


@pytest.mark.parametrize("claim", ["audience", "issuer"])
@pytest.mark.parametrize("value", [None, "", " "])
async def test_an_expected_claim_is_needed(
    bearer: dict[str, object], claim: str, value: str | None
) -> None:
    """As Apache Kafka 4.4; earlier versions accepted any."""
    other = {"audience": "issuer", "issuer": "audience"}[claim]
    settings = bearer | {f"{EXPECTED}.{other}": "x", f"{UNVERIFIED}.{other}": "true"}
    if value is not None:
        settings[f"{EXPECTED}.{claim}"] = value
    with pytest.raises(ConfigError, match=f"{EXPECTED}.{claim}: .*{UNVERIFIED}.{claim}=true"):
        await sasl_of(settings)


async def test_no_keys_are_fetched_before_the_expected_claims_are_set(
    bearer: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys.json").unlink()
    with pytest.raises(ConfigError):
        await sasl_of(bearer)
    assert caplog.messages == []
    await sasl_of(bearer | {f"{EXPECTED}.audience": "us", f"{EXPECTED}.issuer": "them"})
    assert caplog.messages == ["cannot fetch the JWKS"]


async def test_claims_are_not_verified_if_settings_allow_it(
    bearer: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    allowed = {f"{INTERNAL}.{UNVERIFIED}.{claim}": "true" for claim in ("audience", "issuer")}
    sasl = await sasl_of(bearer | allowed)
    for claims in ({}, {"aud": "x", "iss": "y"}):
        message = f"n,,\x01auth=Bearer {token(**claims)}\x01\x01".encode()
        assert isinstance(sasl.mechanisms["OAUTHBEARER"]().step(message), Authenticated)
    assert [line.split(";")[0] for line in caplog.messages] == [
        "listener INTERNAL accepts bearer tokens regardless of their audience",
        "listener INTERNAL accepts bearer tokens regardless of their issuer",
    ]


async def test_an_expected_claim_is_verified_whatever_is_allowed(
    bearer: dict[str, object],
) -> None:
    settings = bearer | {f"{EXPECTED}.audience": "us", f"{EXPECTED}.issuer": "them"}
    settings |= {f"{UNVERIFIED}.{claim}": "true" for claim in ("audience", "issuer")}
    sasl = await sasl_of(settings)
    for wrong in ({"aud": "x"}, {"iss": "x"}, {"aud": None}, {"iss": None}):
        message = f"n,,\x01auth=Bearer {token(**({'aud': 'us', 'iss': 'them'} | wrong))}\x01\x01"
        assert isinstance(sasl.mechanisms["OAUTHBEARER"]().step(message.encode()), Challenge)


async def test_unsecured_tokens_only_if_a_setting_says_so() -> None:
    bearer = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    sasl = await sasl_of(bearer | {"sasl.oauthbearer.unsecured": True})
    assert isinstance(sasl.mechanisms["OAUTHBEARER"]().step(b""), Failed)
    with pytest.raises(ConfigError, match=r"sasl.oauthbearer.unsecured for development"):
        await sasl_of(bearer)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl.enabled.mechanisms": ""}, "listener INTERNAL needs one"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, f"{INTERNAL}.plain.sasl.jaas.config: PLAIN needs"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": USERS[:-1]},
            f"{INTERNAL}.plain.sasl.jaas.config: after 1 options",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", JWKS_URL: "https://issuer.test/keys"},
            "https://issuer.test/keys is not one of",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", JWKS_URL: "http://x", ALLOWED: "http://x"},
            "http://x is neither https nor file",
        ),
    ],
)
async def test_settings_that_do_not_do(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await sasl_of(settings)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
