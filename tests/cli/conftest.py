"""The `serve` fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.served import Serve, Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers that end with the test."""
    made: list[Served] = []

    def start(*options: str) -> Served:
        made.append(Served(*options, directory=tmp_path))
        return made[-1]

    yield start
    for server in made:
        server.kill()
