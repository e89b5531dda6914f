"""Servers as subprocesses: started, spoken to in raw bytes, and never left behind."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

READY_WITHIN_S = 20.0
API_VERSIONS, METADATA = 18, 3


class Served:
    """One `kohort serve`."""

    def __init__(self, *options: str, directory: Path) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("KOHORT_")
        }
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", *options],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._told:
                self.lines.append(line.rstrip("\n"))
                self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def line(self, word: str) -> str:
        """The first line of the log with `word`, waited for. Raises AssertionError."""

        def found() -> bool:
            return any(word in line for line in self.lines) or not self._reader.is_alive()

        with self._told:
            self._told.wait_for(found, READY_WITHIN_S)
        matching = [line for line in self.lines if word in line]
        assert matching, f"no {word!r} in {self.lines}"
        return matching[0]

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, once it does."""
        return self.port_named("address")

    def port_named(self, field: str) -> tuple[str, int]:
        match = re.search(rf" {field}=([\d.]+):(\d+)", self.line("listening"))
        assert match is not None
        return match[1], int(match[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(20)
        self._reader.join(5)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


Serve = Callable[..., Served]
"""Starts a server with these options."""


def ask(
    address: tuple[str, int], api_key: int = API_VERSIONS, version: int = 0, body: bytes = b""
) -> bytes:
    """The body of the answer to one request with a non-flexible header."""
    request = struct.pack(">hhih", api_key, version, 7, -1) + body
    with socket.create_connection(address, 10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        answer = file.read(size)
    assert answer[:4] == struct.pack(">i", 7)
    return answer[4:]
