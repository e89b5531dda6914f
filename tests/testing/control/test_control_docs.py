"""The commands of docs/testing.md control a server."""

import shutil
import subprocess

import pytest

from docs.blocks import run_by
from kohort.cli.serve import CONTROL_ADDRESS
from kohort.testing import RemoteKafka
from kohort.testing.control.remote_server import RemoteServer


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_succeed(control: str) -> None:
    (block,) = run_by(__file__)
    with RemoteKafka(control) as kafka:
        assert isinstance(kafka._server, RemoteServer)
        number = kafka._server.broker  # that of the page may be in use by other tests
        code = block.code.replace(CONTROL_ADDRESS, control).replace(
            "/brokers/1", f"/brokers/{number}"
        )
        done = subprocess.run(
            ["bash", "-euc", code], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == f'"{kafka.bootstrap}"'
        assert '"committed": {"orders-0": 1}' in done.stdout
        assert kafka.group("billing").state == "Dead", "the broker was reset"
