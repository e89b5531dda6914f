"""A control API for all tests of the session."""

from collections.abc import Iterator

import pytest

from kohort.testing import ServerProcess

CONTROL_OPTIONS = ("--dev", "--control=127.0.0.1:0", "--memory")


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the control API of a process, whose brokers tests start and stop."""
    log = tmp_path_factory.mktemp("control") / "server.log"
    with ServerProcess(*CONTROL_OPTIONS, log=log) as server:
        yield server.control
