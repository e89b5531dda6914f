"""By which listener the nodes of a cluster connect to each other, and as whom."""

import re

import pytest

from kohort.errors import ConfigError
from kohort.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from kohort.server.config import Config, InterBroker, NodeLogin
from kohort.server.net import ConnectionLimits

CLUSTER = {"storage": "postgresql://h/d"}
SCRAM = {
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.inside.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM_LOGIN_MODULE} required username="nodes" password="s3cret";'
    ),
}
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": (
        f"{PLAIN_LOGIN_MODULE} required username=nodes password=s3cret user_nodes=s3cret;"
    ),
}
INSIDE = {"inter.broker.listener.name": "inside"}


def several(inside: str) -> dict[str, object]:
    """A listener for clients, and one for nodes with that protocol."""
    return CLUSTER | {
        "listeners": "PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9093",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:{inside}",
    }


def inter_broker(settings: dict[str, object]) -> InterBroker:
    found = Config(settings).inter_broker
    assert found is not None
    return found


def test_without_a_shared_storage_there_is_none() -> None:
    assert Config().inter_broker is None


ALONE = CLUSTER | {
    "listeners": "CLIENTS://127.0.0.1:9092",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
}
"""A server that names no listener for nodes."""


def test_a_node_that_is_to_be_alone_needs_none() -> None:
    config = Config(ALONE)
    assert config.inter_broker is None
    assert "nodes connect to each other by the listener named" in str(config.no_inter_broker)
    assert Config(CLUSTER).no_inter_broker is None


def test_one_of_several_workers_needs_one() -> None:
    with pytest.raises(ConfigError, match="nodes connect to each other by"):
        Config(ALONE | {"workers": "2"})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
        (INSIDE, "INSIDE"),
    ],
)
def test_the_listener_is_named_or_has_the_name_of_the_protocol(
    settings: dict[str, object], name: str
) -> None:
    found = inter_broker(several("SSL") | settings)
    assert (found.listener.name, found.login, found.checks_names) == (name, None, True)


@pytest.mark.parametrize(
    ("settings", "mechanism"), [(SCRAM, "SCRAM-SHA-512"), (PLAIN, "PLAIN")], ids=["scram", "plain"]
)
def test_a_node_logs_in_as_the_jaas_config_of_the_listener_says(
    settings: dict[str, object], mechanism: str
) -> None:
    login = inter_broker(several("SASL_SSL") | INSIDE | settings).login
    assert login == NodeLogin(mechanism=mechanism, username="nodes", password="s3cret")
    assert "s3cret" not in repr(login)


@pytest.mark.parametrize("algorithm", ["https", "HTTPS", ""])
def test_names_of_hosts_are_checked_unless_the_algorithm_is_empty(algorithm: str) -> None:
    name = "listener.name.inside.ssl.endpoint.identification.algorithm"
    found = inter_broker(several("SSL") | INSIDE | {name: algorithm})
    assert found.checks_names is bool(algorithm)


OTHER_MODULE = {
    "listener.name.inside.scram-sha-512.sasl.jaas.config": (
        f"{PLAIN_LOGIN_MODULE} required username=nodes password=s3cret;"
    )
}
NO_PASSWORD = {
    "listener.name.inside.scram-sha-512.sasl.jaas.config": (
        f"{SCRAM_LOGIN_MODULE} required username=nodes;"
    )
}
OTHER_MECHANISM = {"sasl.mechanism.inter.broker.protocol": "PLAIN"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            INSIDE | {"security.inter.broker.protocol": "PLAINTEXT"},
            "inter.broker.listener.name: only it or security.inter.broker.protocol can be set",
        ),
        (
            {"inter.broker.listener.name": "OUTSIDE"},
            "inter.broker.listener.name: OUTSIDE is none of listeners (PLAINTEXT, INSIDE)",
        ),
        (
            {"security.inter.broker.protocol": "SASL_SSL"},
            "connect to each other by the listener named SASL_SSL, and there is none; name one of "
            "listeners (PLAINTEXT, INSIDE) by inter.broker.listener.name",
        ),
        ({"security.inter.broker.protocol": "TLS"}, "security.inter.broker.protocol: 'TLS' is not"),
        (INSIDE, "sasl.mechanism.inter.broker.protocol: is needed, as INSIDE"),
        (INSIDE | OTHER_MECHANISM, "PLAIN is not enabled"),
        (
            INSIDE | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "listener.name.inside.scram-sha-256.sasl.jaas.config: nodes need it",
        ),
        (INSIDE | SCRAM | OTHER_MODULE, "the login module of SCRAM-SHA-512 is"),
        (INSIDE | SCRAM | NO_PASSWORD, "brokers need username and password"),
        (
            {"listener.name.inside.ssl.endpoint.identification.algorithm": "http"},
            "'http' is not https, or empty",
        ),
    ],
)
def test_settings_by_which_nodes_cannot_connect_are_refused_with_a_remedy(
    settings: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as refused:
        Config(several("SASL_SSL") | settings)
    assert "s3cret" not in str(refused.value)


def test_a_listener_that_is_named_has_to_exist_without_a_cluster_too() -> None:
    with pytest.raises(ConfigError, match="is none of listeners"):
        Config({"inter.broker.listener.name": "INSIDE"})


def test_limits_of_all_listeners_do_not_hold_up_that_of_nodes() -> None:
    config = Config(several("SSL") | INSIDE)
    assert ConnectionLimits.of(config).for_nodes == "INSIDE"
    assert ConnectionLimits.of(Config(CLUSTER)).for_nodes is None
