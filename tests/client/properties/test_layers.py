"""Explicit properties over those of a file."""

from collections.abc import Mapping

import pytest

from kohort.client.properties import in_javas_names, over
from kohort.errors import ConfigError

JAAS = "sasl.jaas.config"
CLIENT = "sasl.oauthbearer.client.credentials.client"
LOGIN = {"sasl.username": "ann", "sasl.password": "of file"}
PAIR = {"ssl.certificate.location": "own.pem", "ssl.key.location": "key.pem"}
TEXT = {"ssl.keystore.certificate.chain": "CHAIN", "ssl.keystore.key": "KEY"}


def line(**options: str) -> str:
    return "a.Module required " + " ".join(f'{name}="{v}"' for name, v in options.items()) + ";"


OF_ANN = line(username="ann", password="of file")


@pytest.mark.parametrize(
    ("file", "explicit", "left"),
    [
        ({"sasl.mechanism": "PLAIN"}, {"sasl.mechanisms": "GSSAPI"}, {}),
        ({"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": "GSSAPI"}, {}),
        ({"bootstrap.servers": "a", "client.id": "x"}, {"metadata.broker.list": "b"},
         {"client.id": "x"}),
        (LOGIN, {JAAS: line(username="bob", password="p")}, {}),
        ({JAAS: OF_ANN}, {"sasl.password": "p"}, {"sasl.username": "ann"}),
        ({JAAS: OF_ANN}, {"sasl.username": "bob", "sasl.password": "p"}, {}),
        ({f"{CLIENT}.id": "ann", f"{CLIENT}.secret": "s"}, {JAAS: line(clientId="bob")},
         {f"{CLIENT}.secret": "s"}),
        ({"sasl.oauthbearer.client.id": "ann"}, {f"{CLIENT}.id": "bob"}, {}),
        ({"ssl.truststore.location": "trust"}, {"ssl.ca.location": "ca.pem"}, {}),
        ({"ssl.ca.location": "ca.pem"}, {"ssl.ca.pem": "CA"}, {}),
        ({"ssl.truststore.certificates": "CA"}, {"ssl.truststore.location": "trust"}, {}),
        (PAIR, {"ssl.keystore.location": "own.jks"}, {}),
        (PAIR, {"ssl.certificate.pem": "C", "ssl.key.pem": "K"}, {}),
        (PAIR, {"ssl.key.location": "other.pem"}, {"ssl.certificate.location": "own.pem"}),
        (TEXT, PAIR, {}),
        ({"ssl.keystore.location": "own.jks"}, PAIR, {}),
        (LOGIN | PAIR, {"security.protocol": "ssl"}, PAIR),
        (LOGIN | PAIR, {"security.protocol": "SASL_PLAINTEXT"}, LOGIN),
    ],
)  # fmt: skip
def test_explicit_properties_beat_what_says_the_same(
    file: Mapping[str, str], explicit: Mapping[str, str], left: Mapping[str, str]
) -> None:
    assert over(file, explicit) == left | dict(explicit)


def test_names_of_librdkafka_become_javas() -> None:
    given = {"sasl.mechanisms": "PLAIN", "sasl.mechanism": "PLAIN", "socket.timeout.ms": "5"}
    assert in_javas_names(given) == {"sasl.mechanism": "PLAIN", "request.timeout.ms": "5"}
    with pytest.raises(
        ConfigError, match=r"kafka\.queue\.buffering\.max\.ms and kafka\.linger\.ms"
    ):
        in_javas_names({"queue.buffering.max.ms": "1", "linger.ms": "2"}, prefix="kafka.")
