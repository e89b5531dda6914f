"""The `serve` fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.served import Serve
from kohort.testing.server_process import ServerProcess


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
