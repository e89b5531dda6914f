"""The `serve` fixture, and histories of a log that Apache Kafka wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.served import Serve
from kohort.testing.server_process import ServerProcess

if TYPE_CHECKING:
    from history.recorded import Recording


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers that end with the test."""
    made: list[ServerProcess] = []

    def start(*options: str) -> ServerProcess:
        log = tmp_path / f"server-{len(made)}.log"
        made.append(ServerProcess(*options, log=log, directory=tmp_path))
        return made[-1]

    yield start
    for server in made:
        server.kill()


@pytest.fixture(scope="session")
def recording() -> "Recording":
    """Logs of classic groups."""
    from history.recorded import load

    return load("classic")


@pytest.fixture(scope="session")
def out(recording: "Recording", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of the whole log; do not change it."""
    return _built(recording, tmp_path_factory, "whole")


@pytest.fixture(scope="session")
def compacted(recording: "Recording", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of the compacted log; do not change it."""
    return _built(recording, tmp_path_factory, "compacted")


def _built(recording: "Recording", directories: pytest.TempPathFactory, log: str) -> Path:
    from history.built import build  # needs PyArrow

    directory = directories.mktemp(log) / "out"
    build(recording, directory, log)
    return directory
