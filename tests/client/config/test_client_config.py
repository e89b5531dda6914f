"""Client configuration: what is refused, and that the refusal says what to do."""

from typing import Any

import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.config.client_config import parse_bootstrap
from kohort.client.security import Security
from kohort.errors import ConfigError


@pytest.mark.parametrize(
    ("bootstrap", "servers"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        ("a:1, b:2,a:1,", (("a", 1), ("b", 2))),
        (["[::1]:9092", "PLAINTEXT://c:3"], (("::1", 9092), ("c", 3))),
    ],
)
def test_bootstrap_accepts_one_or_several_servers(bootstrap: Any, servers: Any) -> None:
    assert parse_bootstrap(bootstrap) == servers
    assert ClientConfig(bootstrap=bootstrap).servers == servers


@pytest.mark.parametrize(
    "bootstrap", ["", ",", [], "localhost", "localhost:", ":9092", "a:0", "a:65536", "::1:9092"]
)
def test_bootstrap_servers_that_are_none(bootstrap: Any) -> None:
    with pytest.raises(ConfigError, match="localhost:9092"):
        ClientConfig(bootstrap=bootstrap)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"request_timeout_ms": 0}, "request_timeout_ms is 0; it has to be a whole number from 1"),
        ({"retry_backoff_ms": 1.5}, "retry_backoff_ms is 1.5"),
        ({"metadata_max_age_ms": True}, "metadata_max_age_ms is True"),
        (
            {"max_in_flight_requests_per_connection": 0},
            "max_in_flight_requests_per_connection is 0",
        ),
        ({"client_id": "x" * 40_000}, "client_id is longer"),
    ],
)
def test_values_out_of_bounds(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ClientConfig(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        ({"mechanism": "PLAIN"}, "set protocol to SASL_SSL"),
        ({"protocol": "SASL_SSL"}, "SASL mechanism None: it is one of PLAIN"),
        ({"protocol": "SASL_SSL", "mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        (
            {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u"},
            "needs username and password",
        ),
        ({"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER"}, "needs token"),
        ({"ssl_cafile": "ca.pem"}, "set protocol to SSL"),
        ({"protocol": "SSL", "ssl_keyfile": "key.pem"}, "certificate of the key"),
    ],
)
def test_security_that_does_not_fit_together(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Security(**options)


def test_files_that_cannot_be_used() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        Security(protocol="SSL", ssl_cafile="nowhere.pem").context()


def test_security_that_cannot_be_used_is_told_before_the_first_connection() -> None:
    missing = ClientConfig(security=Security(protocol="SSL", ssl_cafile="/nowhere/ca.pem"))
    with pytest.raises(ConfigError, match=r"/nowhere/ca.pem: .*No such file"):
        Cluster(missing)
    with pytest.raises(ConfigError, match=r"security is \{\}; it has to be a Security"):
        ClientConfig(security={})  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="secret", extensions={}
    )
    assert "secret" not in repr(ClientConfig(security=security))
