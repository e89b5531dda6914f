"""Fixtures of the interop suite: the server under test, a trial for each test, and honest skips."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop import targets
from interop.built import CLIENTS as BUILT
from interop.built import SPARK
from interop.programs import Client, java_missing
from interop.roster import CLIENTS
from interop.targets import KohortServe, Target
from interop.tools import Tools
from interop.trial import Trial

MANY_CLIENTS = {
    "test_consumer_group_options",
    "test_more_tools",
    "test_new_protocol",
    "test_spark",
    "test_static_members",
}
"""Modules of which no test belongs to `make test`: it has ten minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is for `make interop` alone: clients that are built first, and the rarer tools.

    Clients written by others have races of their own, and a busy machine shows them: a test with them that fails is run
    once more, and pytest tells that it was.
    """
    built = {client.name for client in BUILT}
    for item in items:
        callspec = getattr(item, "callspec", None)
        names = {str(value) for value in callspec.params.values()} if callspec else set()
        module = item.path.stem
        if item.get_closest_marker("interop") is None:
            continue
        item.add_marker(pytest.mark.flaky(reruns=1))
        if module in MANY_CLIENTS or names & built or "java-range" in item.name:
            item.add_marker(pytest.mark.clients)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the clients that the selected tests need, before any test's clock runs."""
    if session.config.option.collectonly:
        return
    for client in CLIENTS:
        if any(_takes(item, client) for item in session.items):
            client.missing()
    if any("spark" in getattr(item, "fixturenames", ()) for item in session.items):
        SPARK.missing()


def _takes(item: pytest.Item, client: Client) -> bool:
    callspec = getattr(item, "callspec", None)
    taken = callspec.params.get("client") if callspec else None
    return taken in (client, client.stand_in) or "able_clients" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def able_clients() -> tuple[Client, ...]:
    """All clients that can run here."""
    return tuple(client for client in CLIENTS if client.missing() is None)


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """The JVM for Apache Kafka's command line tools."""
    if reason := java_missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    running = Tools()
    yield running
    running.close()


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One server for all tests that do not restart it."""
    server = targets.start(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def restartable(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server that this test may restart: its own one, but the shared one of a peer that starts slowly."""
    if targets.PEER not in ("", "kafka"):
        pytest.skip(f"{targets.PEER} belongs to someone else and is not restarted")
    if targets.PEER:
        yield request.getfixturevalue("target")
        return
    server = KohortServe(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def trial_on(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[Target], Trial]]:
    """Makes the test's trial on a server; its processes end with the test."""
    made: list[Trial] = []
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")

    def make(server: Target) -> Trial:
        trial = Trial(server, tmp_path, name)
        made.append(trial.__enter__())
        return trial

    yield make
    for trial in made:
        trial.__exit__(None, None, None)


def need(client: Client) -> Client:
    """The client, or a skip that says what is missing."""
    if reason := client.missing():
        pytest.skip(f"{client}: {reason}")
    return client
