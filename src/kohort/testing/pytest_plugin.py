"""pytest plugin: Kafka as fixtures. pytest loads it where Kohort is installed.

| fixture | what it is |
|---|---|
| `kafka` | an `EmbeddedKafka` of the test's own |
| `akafka` | the same server as an `AsyncEmbeddedKafka`, for tests with `async def` |
| `kafka_module`, `kafka_session` | one `EmbeddedKafka` for all tests of a module, of the session |
| `kafka_factory` | a function that starts further servers: `kafka_factory(settings={…})` |

Settings of the server come from the ini option `kafka_settings` and from marks:

    @pytest.mark.kafka(settings={"group.max.size": 2}, disk=True)

`--kafka-record DIR` records the traffic of each server, and keeps the files of tests that failed.

All of Kohort is imported by the first test that uses a fixture.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kohort.testing.embedded.async_embedded_kafka import AsyncEmbeddedKafka
    from kohort.testing.embedded.controls import Checkpoint, Controls
    from kohort.testing.embedded.embedded_kafka import EmbeddedKafka

_CONTROLS: Final = "kohort.testing.embedded.controls"
_HAS_FAILED: Final = pytest.StashKey[bool]()
"""Of a test, and of the module and session of a test: one has failed."""
_RECORDINGS: Final = pytest.StashKey[int]()
"""Number of servers of a test, module or session that were recorded."""
_BEFORE: "Final[pytest.StashKey[dict[Controls, Checkpoint]]]" = pytest.StashKey()
"""The servers of a test before it."""
_LONGEST_NAME: Final = 150


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(
        "kafka_settings",
        "settings of the Kafka of tests, one NAME=VALUE a line",
        type="linelist",
        default=[],
    )
    parser.getgroup("kafka").addoption(
        "--kafka-record",
        metavar="DIR",
        type=Path,
        help="keep the Kafka traffic of failed tests in DIR, one file for each server; replay it "
        "by kafka.replay(FILE) or `kohort replay FILE`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "kafka(settings={}, disk=False): settings of the fixture kafka by Kafka's names; with "
        "disk, its records are stored on disk and survive kafka.restart().",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    """A Kafka server of the test's own, in a thread of this process."""
    yield from _started(request)


@pytest.fixture
def akafka(kafka: "EmbeddedKafka") -> "AsyncEmbeddedKafka":
    """The server of `kafka`, for a test on an asyncio event loop."""
    from kohort.testing.embedded.async_embedded_kafka import AsyncEmbeddedKafka

    return AsyncEmbeddedKafka.of(kafka)


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    """A Kafka server for all tests of a module; `kafka_module.name("orders")` gives fresh names."""
    yield from _started(request)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    """A Kafka server for all tests; `kafka_session.name("orders")` gives fresh names."""
    yield from _started(request)


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> "Iterator[Callable[..., EmbeddedKafka]]":
    """A function that starts a further server, with more settings; all end with the test."""
    with ExitStack() as opened:

        def start(
            settings: Mapping[str, object] | None = None, *, disk: bool = False
        ) -> "EmbeddedKafka":
            return opened.enter_context(_recorded(request, settings or {}, disk=disk))

        yield start


def _started(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    with _recorded(request, {}, disk=False) as kafka:
        yield kafka


@contextmanager
def _recorded(
    request: pytest.FixtureRequest, settings: Mapping[str, object], *, disk: bool
) -> "Iterator[EmbeddedKafka]":
    """A server; its recording is removed unless a test that could use it has failed."""
    directory: Path | None = request.config.getoption("kafka_record")
    kafka = _new(request, settings, disk=disk)
    if directory is None:
        with kafka:
            yield kafka
        return
    path = _free_path(directory.absolute(), request.node)
    ended = False
    try:
        with kafka, kafka.record(path):
            yield kafka
        ended = True
    finally:
        if ended and not request.node.stash.get(_HAS_FAILED, False):
            path.unlink()


def _free_path(directory: Path, node: Any) -> Path:
    """A path for the recording of a test, module or session; one of an earlier run is replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", node.nodeid or "session").strip("-")[:_LONGEST_NAME]
    workers: dict[str, str] = getattr(node.config, "workerinput", {})
    suffix = f"-{workers['workerid']}" if workers and not node.nodeid else ""
    servers = node.stash[_RECORDINGS] = node.stash.get(_RECORDINGS, 0) + 1
    number = f"-{servers}" if servers > 1 else ""
    path = directory / f"{name}{suffix}{number}.jsonl"
    path.unlink(missing_ok=True)
    return path


def _new(
    request: pytest.FixtureRequest, settings: Mapping[str, object], *, disk: bool
) -> "EmbeddedKafka":
    from kohort.testing.embedded.embedded_kafka import EmbeddedKafka

    marked, on_disk = _marked(request.node)
    directory: Path | None = None
    if disk or on_disk:
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        directory = factory.mktemp("kafka")
    ini = _ini_settings(request.config)
    return EmbeddedKafka({**ini, **marked, **settings}, directory=directory)


def _ini_settings(config: pytest.Config) -> dict[str, object]:
    settings: dict[str, object] = {}
    for line in config.getini("kafka_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"kafka_settings: {line!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _marked(node: Any) -> tuple[dict[str, object], bool]:
    """Settings of all marks of a test, module or session, the nearest first in rank; disk."""
    settings: dict[str, object] = {}
    disk = False
    for mark in reversed(list(node.iter_markers("kafka"))):
        unknown = mark.kwargs.keys() - {"settings", "disk"}
        if unknown or mark.args:
            raise pytest.UsageError(f"@pytest.mark.kafka takes settings= and disk=, not {mark!r}")
        marked = mark.kwargs.get("settings", {})
        if not isinstance(marked, Mapping):
            raise pytest.UsageError(f"@pytest.mark.kafka takes a mapping as settings, not {mark!r}")
        settings |= marked
        disk = mark.kwargs.get("disk", disk)
    return settings, disk


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the timeline of each server to the report of a test that failed."""
    report: pytest.TestReport = yield
    if report.when == "setup":
        item.stash[_HAS_FAILED] = False  # a test may run several times
    if report.failed:
        for node in item.listchain():
            node.stash[_HAS_FAILED] = True
    if report.when == "call" and report.failed:
        timelines = {controls.timeline for controls in _servers_of(item)}
        report.sections += (("Kafka timeline", timeline) for timeline in timelines if timeline)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Remember the servers as they are before the test, for servers of several tests."""
    item.stash[_BEFORE] = {controls: controls.checkpoint() for controls in _servers_of(item)}
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    """Let clients that the test has killed close; undo kills, faults and frozen time after it."""
    before = item.stash.get(_BEFORE, {})
    for controls in _servers_of(item):
        controls.let_killed_leave()
        if controls in before and item.stash.get(_HAS_FAILED, False):
            controls.restore(before[controls], verify=False)  # its failure is the report
    try:
        return (yield)
    finally:
        for controls, checkpoint in before.items():
            if controls.is_running:
                controls.revive()
                controls.restore(checkpoint)


def _servers_of(item: pytest.Item) -> "list[Controls]":
    """The running servers among the fixtures of a test."""
    module = sys.modules.get(_CONTROLS)
    if module is None:
        return []
    values = getattr(item, "funcargs", {}).values()
    controls = [value for value in values if isinstance(value, module.Controls)]
    return list({each.bootstrap: each for each in controls if each.is_running}.values())
