"""`kohort certs dev`: what it writes, and that server and client work with it."""

import asyncio
import ssl
from pathlib import Path

import pytest

from cli.running import Run, runner
from kohort.server.broker import Broker
from kohort.server.config import Config
from server.net.bench import Peer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def test_certs_dev_writes_certificates_for_mutual_tls(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    made = run("certs", "dev", str(directory), "--host", "kohort.example", "--client", "alice")
    assert made.exit_code == 0
    assert "ssl.client.auth=required" in made.output
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {
        "ca.pem": 0o600,
        "server.pem": 0o600,
        "client.pem": 0o600,
    }
    asyncio.run(_connect(directory))


async def _connect(directory: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "storage": "memory",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "required",
    }
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(directory / "client.pem")
    async with Broker(Config(settings)) as broker:
        for name in ("localhost", "127.0.0.1", "kohort.example"):
            peer = Peer(
                *await asyncio.open_connection(*broker.address, ssl=context, server_hostname=name)
            )
            assert (await peer.ask("describe_cluster", 0)).cluster_id == broker.cluster_id
            peer.leave()


def test_files_that_exist_are_not_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("precious")
    refused = run("certs", "dev", str(tmp_path))
    assert refused.exit_code == 2
    assert "ca.pem exist; choose another directory" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ca.pem"]


def test_a_validity_that_no_certificate_has(run: Run, tmp_path: Path) -> None:
    assert run("certs", "dev", str(tmp_path), "--days", "0").exit_code == 2
