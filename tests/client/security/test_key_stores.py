"""Java's key and trust stores, as keytool writes them."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kohort.client.security import Security
from kohort.client.security.key_stores import read_key_store
from kohort.errors import ConfigError

PASSWORD = "s3cret"
KEY_PASSWORD = "0ther-key"


def keytool(*arguments: Any) -> None:
    command = ["keytool", *map(str, arguments), "-storepass", PASSWORD, "-noprompt"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module", params=["JKS", "PKCS12"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`key` has a key, whose password is its own in JKS; `trust` has the certificate of it."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not on the PATH")
    directory, kind = tmp_path_factory.mktemp(request.param), ["-storetype", request.param]
    own = ["-keypass", KEY_PASSWORD] if request.param == "JKS" else []
    key, trust, cert = (directory / name for name in ("key", "trust", "cert"))
    keytool(
        "-genkeypair", "-alias", "broker", "-keyalg", "EC", "-dname", "CN=kohort",
        "-keystore", key, *kind, *own,
    )  # fmt: skip
    keytool("-exportcert", "-rfc", "-alias", "broker", "-keystore", key, "-file", cert)
    keytool("-importcert", "-alias", "ca", "-keystore", trust, *kind, "-file", cert)
    return directory


def key_password(stores: Path) -> str | None:
    return KEY_PASSWORD if "JKS" in stores.name else None


def test_the_key_store_and_the_trust_store_belong_together(stores: Path) -> None:
    trust = read_key_store(str(stores / "trust"), PASSWORD, None)
    mine = read_key_store(str(stores / "key"), PASSWORD, key_password(stores))
    assert trust is not None
    assert mine is not None
    assert trust.trusted == mine.chain
    assert not trust.key
    assert ssl.PEM_cert_to_DER_cert(trust.trusted) == ssl.PEM_cert_to_DER_cert(
        (stores / "cert").read_text()
    )
    assert mine.key not in repr(mine)
    security = Security(
        protocol="SSL", ssl_cadata=trust.trusted, ssl_certdata=mine.chain + mine.key
    )
    context = security.context()
    assert context is not None
    assert context.cert_store_stats()["x509"] == 1


def test_a_wrong_password(stores: Path) -> None:
    with pytest.raises(ConfigError, match=r"trust cannot be read: .*[Pp]assword"):
        read_key_store(str(stores / "trust"), "wrong", None)


def test_a_wrong_password_of_the_key(stores: Path) -> None:
    if key_password(stores) is None:
        pytest.skip("keys in PKCS12 have the password of the store")
    with pytest.raises(ConfigError, match="the password of the key is wrong"):
        read_key_store(str(stores / "key"), PASSWORD, "wrong")


def test_a_store_that_was_cut(stores: Path, tmp_path: Path) -> None:
    content = (stores / "key").read_bytes()
    for size in (5, 13, 40, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(ConfigError, match="cut cannot be read"):
            read_key_store(str(tmp_path / "cut"), PASSWORD, KEY_PASSWORD)


def test_files_that_are_no_key_store_are_read_as_pem_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("hello\n-----BEGIN CERTIFICATE-----\n")
    assert read_key_store(str(tmp_path / "a.pem"), None, None) is None
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ConfigError, match=r"a\.txt is neither JKS nor PKCS12 nor PEM"):
        read_key_store(str(tmp_path / "a.txt"), None, None)
    with pytest.raises(ConfigError, match="nowhere cannot be read: No such file or directory"):
        read_key_store(str(tmp_path / "nowhere"), None, None)
