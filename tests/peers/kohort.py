"""Kohort as a peer: `kohort serve --memory` with Kafka's settings, on a free port, as a process of
its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

READY_SECONDS = 20.0


@contextmanager
def kohort(settings: Mapping[str, str]) -> Iterator[str]:
    """A server that forgets everything when it ends; its address."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KOHORT_")
    }
    command = [sys.executable, "-m", "kohort", "serve", "--memory", "--listen", "127.0.0.1:0"]
    command += [f"--set={name}={value}" for name, value in settings.items()]
    with tempfile.NamedTemporaryFile(prefix="kohort-log-") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield _address(process, Path(log.name))
        finally:
            process.kill()
            process.wait(10)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """What the server tells in its log when it listens. Raises AssertionError with the log when it
    does not.
    """
    deadline = time.monotonic() + READY_SECONDS
    while not (told := re.search(r"listening.* address=([\d.]+:\d+)", log.read_text())):
        assert process.poll() is None, f"kohort serve ended:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"kohort serve does not listen:\n{log.read_text()}"
        time.sleep(0.05)
    return told[1]
