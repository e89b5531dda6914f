"""`Security` by the names of librdkafka and Java's clients; `tests/spark` has more of Java's."""

import subprocess
from pathlib import Path

import pytest

from docs.blocks import Block, run_by
from kohort.client.security import security_of_file, security_of_properties
from kohort.client.security.client_credentials import ClientCredentials
from kohort.client.security.settings import Exchange
from kohort.errors import ConfigError

SASL = {"security.protocol": "SASL_PLAINTEXT"}
OAUTH = SASL | {"sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


async def first(exchange: Exchange) -> bytes:
    """The first message of an authentication."""
    return await anext(exchange)


def test_no_properties_are_plaintext() -> None:
    assert security_of_properties({}).protocol == "PLAINTEXT"


def test_pem_text_by_librdkafkas_names(certificate: tuple[Path, Path]) -> None:
    cert, key = (path.read_text() for path in certificate)
    given = {"ssl.ca.pem": cert, "ssl.certificate.pem": cert, "ssl.key.pem": key}
    found = security_of_properties({"security.protocol": "ssl"} | given)
    context = found.context()
    assert context is not None
    assert context.cert_store_stats()["x509"] == 1


def test_client_credentials_by_librdkafkas_names() -> None:
    given = {
        "sasl.oauthbearer.method": "oidc",
        ENDPOINT: "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": "s3cret",
    }
    found = security_of_properties(OAUTH | given)
    assert isinstance(found.token, ClientCredentials)
    assert "s3cret" not in f"{found!r} {found.token!r}"


async def test_a_token_in_a_file_is_read_for_each_authentication(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    found = security_of_properties(OAUTH | {ENDPOINT: file.as_uri()})
    for token in ("one", "two"):
        file.write_text(f"{token}\n", encoding="utf-8-sig" if token == "two" else "utf-8")
        assert await first(found.exchange()) == f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_security_is_read_from_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "group.id=etl\n# goes on \\\n# and on \\\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-256\nsasl.username=ann\nsasl.password=p=q\n"
    )
    found = security_of_file(file)
    assert (found.mechanism, found.username, found.password) == ("SCRAM-SHA-256", "ann", "p=q")
    found = security_of_file(file, {"sasl.mechanisms": "PLAIN"})
    assert (found.mechanism, found.username) == ("PLAIN", "ann")


@pytest.mark.parametrize("block", run_by(__file__), ids=str)
def test_the_file_in_the_documentation(
    block: Block, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(block.code)
    found = security_of_file(file, {"ssl.truststore.location": str(certificate[0])})
    assert (found.protocol, found.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert found.password == "secret"


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(ConfigError, match=rf"{file}: cannot be read: .*No such file"):
        security_of_file(file)
    file.write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(ConfigError, match=rf"{file}: option sasl.mechanism is missing"):
        security_of_file(file)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (SASL | {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"}, "contradict each other"),
        (OAUTH | {"sasl.oauthbearer.method": "default"}, "only oidc gets tokens here"),
        ({"ssl.ca.pem": "x"}, "ssl.truststore.certificates has no effect"),
    ],
)
def test_contradicting_and_unsupported_properties_are_refused(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        security_of_properties(given)


@pytest.fixture(scope="module")
def encrypted(certificate: tuple[Path, Path]) -> Path:
    """The certificate and its key, with the password `s3cret`, in a file."""
    cert, key = certificate
    file = key.with_name("encrypted.pem")
    command = ["openssl", "pkcs8", "-topk8", "-in", key, "-out", file, "-passout", "pass:s3cret"]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + cert.read_text())
    return file


@pytest.mark.parametrize("in_text", [False, True])
def test_an_encrypted_key(encrypted: Path, in_text: bool) -> None:
    pem = encrypted.read_text()
    given = {"security.protocol": "SSL", "ssl.keystore.type": "PEM"}
    if in_text:
        key, begin, chain = pem.partition("-----BEGIN CERTIFICATE")
        given |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": begin + chain}
    else:
        given["ssl.keystore.location"] = str(encrypted)
    assert security_of_properties(given | {"ssl.key.password": "s3cret"}).context() is not None
    for wrong in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(ConfigError, match=r"ssl\.key\.password is not that of the key"):
            security_of_properties(given | wrong)
