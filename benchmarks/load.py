"""Run the load program (`native/load.c`) against a server, and measure the server's CPU time."""

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks import tools
from benchmarks.servers import Server

_numbers = itertools.count(1)


class LoadError(RuntimeError):
    """A response of the server was wrong; the text has the details."""


class Load:
    """A load program that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """Return its next line. Raises LoadError if the program has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            assert self._process.stderr is not None
            raise LoadError(
                self._process.stderr.read().strip() or "the load program ended without a word"
            )
        return line

    def answer(self) -> dict[str, Any]:
        """Return its next line, which is JSON."""
        told: dict[str, Any] = json.loads(self.line())
        return told

    def go_on(self) -> None:
        """Let it continue after a line at which it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


@contextmanager
def running(server: Server, mode: str, **options: Any) -> Iterator[Load]:
    """Run a load program against `server`.

    `options` are those of the program, with `_` for `-` and True for flags. Its groups have names
    that no other run of this process uses. At the end of the block it leaves its groups and ends.
    """
    given = {"run": f"bench-{os.getpid()}-{next(_numbers)}", **options, **server.load_options}
    command = [str(tools.load()), mode, f"--port={server.port}"]
    for name, value in given.items():
        if value is not False:
            flag = f"--{name.replace('_', '-')}"
            command.append(flag if value is True else f"{flag}={value}")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Load(process)
            _, complaint = process.communicate(timeout=60)
            if process.returncode:
                raise LoadError(complaint.strip())
        finally:
            process.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Figures of one request in flight on each connection, for some seconds."""

    per_s: float
    per_cpu_s: float
    """Requests per second of CPU time that the server used."""
    cores: float
    """CPU time of the server per second."""
    p50_ms: float
    p99_ms: float
    load_cores: float
    """CPU time of the load program per second; near 1 it is the bottleneck."""


def steady(server: Server, mode: str, **options: Any) -> Steady:
    """Run `heartbeats` or `commits`, without the warm-up."""
    with running(server, mode, **options) as load:
        if load.line() != "measuring":
            raise LoadError("the load program speaks another language")
        before = server.cpu_seconds()
        told = load.answer()
        used = max(server.cpu_seconds() - before, 0.01)
    return Steady(
        per_s=told["count"] / told["seconds"],
        per_cpu_s=told["count"] / used,
        cores=used / told["seconds"],
        p50_ms=told["p50_us"] / 1000,
        p99_ms=told["p99_us"] / 1000,
        load_cores=told["load_cpu_s"] / told["seconds"],
    )


def make_topic(server: Server, partitions: int, topic: str = "bench") -> None:
    """Create a topic with `partitions`, by default that of the load program's commits.

    One that exists stays as it is.
    """
    with running(server, "topic", partitions=partitions, topic=topic):
        pass
