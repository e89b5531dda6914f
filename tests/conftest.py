"""Setup of every test run: Hypothesis profiles, JVM flags, garbage collection, workers, reruns."""

import logging
import os
import re
import signal
from collections.abc import Iterator

import pytest

import heap
import spreading
from docs.blocks import run_by
from effort import load_profiles
from peers import spark
from peers.postgres import Postgres, PostgresUnavailableError

# A shell starts what runs in the background with SIGINT ignored: tests interrupt themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

load_profiles()
os.environ[spark.VARIABLE] = " ".join(spark.options())

RERUN_LINES = 8
"""Lines of a failure that the list of reruns shows."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of pytest-xdist: the units that take longest come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: spreading.rank(item.nodeid))


def pytest_collection_finish() -> None:
    """What has been imported stays."""
    heap.freeze()


def pytest_runtest_logfinish() -> None:
    """Between two tests."""
    heap.collect()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for each processor: many tests mostly wait for other processes."""
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> spreading.Spreading:
    """Distribute the tests by `spreading`."""
    return spreading.scheduler(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that failed once and were run again, with the end of each failure."""
    reruns = terminalreporter.stats.get("rerun", [])
    if not reruns:
        return
    terminalreporter.section("run again", sep="-")
    for report in reruns:
        terminalreporter.write_line(f"RERUN {report.nodeid}")
        for line in report.longreprtext.splitlines()[-RERUN_LINES:]:
            terminalreporter.write_line(f"    {line}")


@pytest.fixture(autouse=True)
def logging_of_others() -> Iterator[None]:
    """`kohort serve` sets up the logging of its process, which here is that of all tests."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL, without the guarantees of fsync."""
    with _started() as cluster:
        yield cluster


@pytest.fixture
def primary() -> Iterator[Postgres]:
    """A PostgreSQL of the test's own, which it may end, restore and replace."""
    with _started(restore_command="false") as cluster:
        yield cluster


def _started(**settings: str) -> Postgres:
    try:
        return Postgres.start(**settings)
    except PostgresUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The URL of a schema of its own in PostgreSQL."""
    return postgres.new_schema()


@pytest.fixture
def as_application(postgres: Postgres, database: str) -> Iterator[str]:
    """The URL of a role with the documented privileges on the tables, which another role made."""
    from peers.postgres import make_tables

    make_tables(database)
    schema = database.rpartition("=")[2]
    (block,) = run_by(__file__)
    role = f"role_of_{schema}"
    postgres.execute(
        f"create role {role} login",
        *re.sub(r"\bkohort\b", schema, block.code).replace("kohort_server", role).split(";")[:-1],
    )
    yield database.replace("kohort@", f"{role}@")
    postgres.execute(f"drop owned by {role}", f"drop role {role}")
