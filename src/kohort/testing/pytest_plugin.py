"""pytest plugin: Kafka as fixtures. pytest loads it where Kohort is installed.

| fixture | what it is |
|---|---|
| `kafka` | an `EmbeddedKafka` of the test's own |
| `akafka` | the same server as an `AsyncEmbeddedKafka`, for tests with `async def` |
| `kafka_module`, `kafka_session` | one `EmbeddedKafka` for all tests of a module, of the session |
| `kafka_factory` | a function that starts further servers: `kafka_factory(settings={…})` |

Settings of the server come from the ini option `kafka_settings` and from marks:

    @pytest.mark.kafka(settings={"group.max.size": 2}, disk=True)

All of Kohort is imported by the first test that uses a fixture.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kohort.testing.embedded.async_embedded_kafka import AsyncEmbeddedKafka
    from kohort.testing.embedded.controls import Controls
    from kohort.testing.embedded.embedded_kafka import EmbeddedKafka

_CONTROLS: Final = "kohort.testing.embedded.controls"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(
        "kafka_settings",
        "settings of the Kafka of tests, one NAME=VALUE a line",
        type="linelist",
        default=[],
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
            return opened.enter_context(_new(request, settings or {}, disk=disk))

        yield start


def _started(request: pytest.FixtureRequest) -> "Iterator[EmbeddedKafka]":
    with _new(request, {}, disk=False) as kafka:
        yield kafka


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
        settings |= mark.kwargs.get("settings", {})
        disk = mark.kwargs.get("disk", disk)
    return settings, disk


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the timeline of each server to the report of a test that failed."""
    report: pytest.TestReport = yield
    if report.when == "call" and report.failed:
        timelines = {controls.timeline for controls in _servers_of(item)}
        report.sections += (("Kafka timeline", timeline) for timeline in timelines if timeline)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    """Let clients that the test has killed close, and later tests use their client ids."""
    for controls in _servers_of(item):
        controls.let_killed_leave()
    result = yield
    for controls in _servers_of(item):
        controls.revive()
    return result


def _servers_of(item: pytest.Item) -> "list[Controls]":
    """The running servers among the fixtures of a test."""
    module = sys.modules.get(_CONTROLS)
    if module is None:
        return []
    values = getattr(item, "funcargs", {}).values()
    return [value for value in values if isinstance(value, module.Controls) and value.is_running]
