"""Fixtures for tests of the client: a broker in the process, and a cluster of it.

The tests run in virtual time: no time limit depends on the load of the machine.
"""

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from client.virtual_sockets import SocketVirtualLoop
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.runtime.clock import Clock
from kohort.server.broker import Broker
from kohort.server.config.config import Config


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], SocketVirtualLoop]]:
    return {"virtual": SocketVirtualLoop}


@pytest.fixture
def clock() -> Clock | None:
    """The clock of `broker`; by default the machine's."""
    return None


@pytest.fixture
async def broker(clock: Clock | None) -> AsyncIterator[Broker]:
    """A Kohort server in this process, in memory, without an initial rebalance delay."""
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "group.initial.rebalance.delay.ms": "0",
    }
    async with Broker(Config(settings), clock=clock) as running:
        yield running


@pytest.fixture
def config(broker: Broker) -> ClientConfig:
    """Leads to `broker`; patient for as long as a test may take, with short pauses."""
    return ClientConfig(
        bootstrap=str(broker.address),
        request_timeout_ms=5_000,
        default_api_timeout_ms=5_000,
        retry_backoff_ms=5,
        retry_backoff_max_ms=20,
    )


@pytest.fixture
async def cluster(config: ClientConfig) -> AsyncIterator[Cluster]:
    """A cluster of that one broker."""
    async with Cluster(config) as opened:
        yield opened


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH")
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    names = ["-subj", "/CN=kohort", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(
        [*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    return cert, key
