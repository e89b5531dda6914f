"""Kohort as a peer: `kohort serve --memory` with Kafka's settings, in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kohort.testing.server_process import ServerProcess


@contextmanager
def kohort(settings: Mapping[str, str]) -> Iterator[str]:
    """A server that forgets everything when it ends; its address."""
    with tempfile.TemporaryDirectory(prefix="kohort-log-") as directory:
        server = ServerProcess(
            "--memory",
            log=Path(directory) / "log",
            settings={"memory.restart.visible": "false", **settings},
        )
        try:
            yield server.address
        finally:
            server.kill()
