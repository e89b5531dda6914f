"""Fixtures for tests of the client in real time: brokers in processes of their own."""

from collections.abc import Iterator

import pytest

from client.conftest import broker, certificate, clock, cluster, config
from live.client.brokers import Site, opened
from peers.kafka import LAST_OF_3, VERSION

__all__ = ["broker", "certificate", "clock", "cluster", "config", "site"]


@pytest.fixture(
    scope="session",
    params=[
        "kohort",
        pytest.param(f"kafka-{VERSION}", marks=pytest.mark.clients),
        pytest.param(f"kafka-{LAST_OF_3}", marks=[pytest.mark.clients, pytest.mark.long]),
    ],
)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A broker in a process of its own: started once for all tests on it, of which each leaves it
    in order.
    """
    with opened(request.param, tmp_path_factory.mktemp("site")) as running:
        yield running
