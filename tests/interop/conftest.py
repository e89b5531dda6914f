"""Fixtures of the interop suite: the server under test, one trial per test, built clients."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from interop import programs, targets
from interop.built import FLINK, MIRROR_MAKER, SPARK, STREAMS_AND_CONNECT
from interop.processes import PATIENCE_S
from interop.programs import KOHORT, Client, java_missing
from interop.roster import CLIENTS
from interop.targets import Target
from interop.tools import Tools
from interop.trial import Trial
from peers.kafka import free_port, missing_tools

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this directory time for several waits, and one rerun to those that run a
    client or tool of another project.

    Those have races of their own, and a busy machine shows them. The end of the run lists each
    rerun.
    """
    for item in items:
        if HERE not in item.path.parents:
            continue
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(5 * PATIENCE_S))
        if item.get_closest_marker("interop") and is_foreign(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def is_foreign(item: pytest.Item) -> bool:
    """Whether a test of this directory runs more than our own client."""
    callspec = getattr(item, "callspec", None)
    return callspec is None or callspec.params.get("client") is not KOHORT


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the selected tests need, before any test's clock runs."""
    if session.config.option.collectonly:
        return
    for client in wanted(session.items):
        client.missing()
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "spark" in fixtures:
        SPARK.missing()
    if "streams_and_connect" in fixtures:
        STREAMS_AND_CONNECT.missing()
    if "mirror_maker" in fixtures:
        MIRROR_MAKER.missing()
    if "flink" in fixtures:
        FLINK.missing()


def wanted(items: Sequence[pytest.Item]) -> Sequence[Client]:
    """The clients of the selected tests; all of them, or all that need no building, for tests with
    `able_clients`.
    """
    if any("able_clients" in getattr(item, "fixturenames", ()) for item in items):
        return (
            CLIENTS
            if any(item.get_closest_marker("clients") for item in items)
            else programs.CLIENTS
        )
    specs = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return [spec["client"] for spec in specs if isinstance(spec.get("client"), Client)]


@pytest.fixture(scope="session")
def able_clients(request: pytest.FixtureRequest) -> tuple[Client, ...]:
    """The clients that can run here; those that are built first only if any of the selected tests
    is with those.
    """
    return tuple(client for client in wanted(request.session.items) if client.missing() is None)


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """The JVM for Apache Kafka's command line tools."""
    if reason := java_missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    running = Tools()
    yield running
    running.close()


@pytest.fixture(scope="session")
def streams_and_connect() -> None:
    """Skips the test without the JARs of Kafka Streams and Connect."""
    if reason := STREAMS_AND_CONNECT.missing():
        pytest.skip(f"Kafka Streams and Connect: {reason}")


@pytest.fixture(scope="session")
def mirror_maker() -> None:
    """Skips the test without MirrorMaker's JARs."""
    if reason := MIRROR_MAKER.missing():
        pytest.skip(f"MirrorMaker: {reason}")


@pytest.fixture(scope="session")
def flink() -> None:
    """Skips the test without Flink's JARs."""
    if reason := FLINK.missing():
        pytest.skip(f"Flink: {reason}")


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One server for all tests that do not restart it."""
    server = targets.start(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[Target]:
    """One Apache Kafka for all tests of `each_server`, which may restart it."""
    if reason := missing_tools():
        pytest.skip(reason)
    server = targets.ready_kafka(free_port(neighbours=1))
    yield server
    server.stop()


@pytest.fixture
def restartable(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server that this test may restart: its own one, but the shared one of a peer that starts
    slowly. The parameter is that of `each_server`.
    """
    if getattr(request, "param", "") == "kafka":
        yield request.getfixturevalue("apache_kafka")
        return
    if targets.PEER not in ("", "kafka", "postgres"):
        pytest.skip(f"{targets.PEER} belongs to someone else and is not restarted")
    if targets.PEER == "kafka":
        yield request.getfixturevalue("target")
        return
    server = targets.start(tmp_path)
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
