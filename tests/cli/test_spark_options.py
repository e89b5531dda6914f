"""The `kafka.*` options that `kohort spark` makes of a properties file and of `-X`."""

import argparse
from pathlib import Path

import pytest

from client.conftest import certificate
from kohort.cli import spark
from kohort.cli.spark_commands import kafka_options
from kohort.client.config import ClientConfig
from kohort.client.security.client_credentials import ClientCredentials
from kohort.spark.kafka_options import client_config

__all__ = ["certificate"]
LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism="
BEARER = LOGIN + "OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url="


def config(tmp_path: Path, properties: str, *words: str) -> ClientConfig:
    """The client of a query that is started with this file."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=a:1\n{properties}\n")
    parser = argparse.ArgumentParser()
    spark.add_arguments(parser)
    options = parser.parse_args(["orders", "--to", "table", "-F", str(file), *words])
    return client_config(kafka_options(options))


@pytest.mark.parametrize(
    "login",
    [
        'PLAIN\nsasl.jaas.config=a.PlainLoginModule required username="ann" password="a\\\\"b";',
        'SCRAM-SHA-256\nsasl.username=ann\nsasl.password=a"b',
        "PLAIN\nsasl.mechanisms=PLAIN\nsasl.username : ann\nsasl.password : a\\u0022b",
    ],
)
def test_a_jaas_login_becomes_mechanism_user_and_password(tmp_path: Path, login: str) -> None:
    security = config(tmp_path, LOGIN + login).security
    assert security.mechanism == login.partition("\n")[0]
    assert (security.username, security.password) == ("ann", 'a"b')


@pytest.mark.parametrize(
    "client",
    [
        'sasl.jaas.config=a.Module required clientId="ann" clientSecret="s" extension_a="b";',
        "sasl.oauthbearer.client.id=ann\nsasl.oauthbearer.client.secret=s",
        "sasl.oauthbearer.client.credentials.client.id=ann\n"
        "sasl.oauthbearer.client.credentials.client.secret=s",
    ],
)
def test_a_bearer_login_becomes_client_credentials(tmp_path: Path, client: str) -> None:
    security = config(tmp_path, f"{BEARER}https://issuer.test/token\n{client}").security
    assert isinstance(security.token, ClientCredentials)
    assert security.extensions == ({"a": "b"} if "extension" in client else {})


async def test_a_token_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    security = config(tmp_path, BEARER + (tmp_path / "token").as_uri()).security
    assert await anext(security.exchange()) == b"n,,\x01auth=Bearer t\x01\x01"


@pytest.mark.parametrize("by", ["files", "stores", "text", "text of librdkafka"])
def test_authorities_and_certificates(
    tmp_path: Path, certificate: tuple[Path, Path], by: str
) -> None:
    cert, key = certificate
    one_line, key_line = (path.read_text().replace("\n", "\\n") for path in certificate)
    both = tmp_path / "own.pem"
    both.write_text(key.read_text() + cert.read_text())
    lines = {
        "files": f"ssl.ca.location={cert}\nssl.certificate.location={cert}\nssl.key.location={key}",
        "stores": f"ssl.truststore.location={cert}\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={both}\nssl.keystore.type=PEM",
        "text": f"ssl.truststore.certificates={one_line}\n"
        f"ssl.keystore.certificate.chain={one_line}\nssl.keystore.key={key_line}",
        "text of librdkafka": f"ssl.ca.pem={one_line}\nssl.certificate.pem={one_line}\n"
        f"ssl.key.pem={key_line}",
    }[by]
    unchecked = "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
    security = config(tmp_path, unchecked + lines).security
    context = security.context()
    assert context is not None
    assert context.cert_store_stats()["x509"] == 1
    assert security.ssl_certfile or security.ssl_certdata
    assert not security.ssl_check_hostname


def test_options_by_names_of_librdkafka(tmp_path: Path) -> None:
    words = ("-X", "socket.timeout.ms=5", "-X", "sasl.mechanisms=PLAIN", "-b", "b")
    found = config(tmp_path, f"{LOGIN}GSSAPI\nsasl.username=ann\nsasl.password=p", *words)
    assert (found.servers, found.request_timeout_ms) == ((("b", 9092),), 5)
    assert found.security.mechanism == "PLAIN"
