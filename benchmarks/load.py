"""Runs the load program (`native/load.c`) against a server, and reads the server's CPU time when it
should.
"""

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
    """The server did not answer as it has to; the text says how."""


class Load:
    """A load program at work."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """Its next line. Raises LoadError when it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            assert self._process.stderr is not None
            raise LoadError(
                self._process.stderr.read().strip() or "the load program ended without a word"
            )
        return line

    def answer(self) -> dict[str, Any]:
        """Its next line, which is JSON."""
        told: dict[str, Any] = json.loads(self.line())
        return told

    def go_on(self) -> None:
        """Let it do what comes after a line that it waits behind."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


@contextmanager
def running(server: Server, mode: str, **options: Any) -> Iterator[Load]:
    """A load program against `server`; options are its own, with `_` for `-`, True for those
    without a value.

    Its groups have names that no other run of this process uses. When the block ends it leaves its
    groups and ends.
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
    """One request in flight on each connection, for some seconds."""

    per_s: float
    per_cpu_s: float
    """Requests per second of CPU time that the server used."""
    cores: float
    """CPU time of the server per second."""
    p50_ms: float
    p99_ms: float
    load_cores: float
    """CPU time of the load program per second: near 1, and it is the bottleneck itself."""


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


def make_topic(server: Server, partitions: int) -> None:
    """Have the topic that the load program commits to, with at least `partitions`."""
    with running(server, "topic", partitions=partitions):
        pass
