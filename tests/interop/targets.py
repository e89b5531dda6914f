"""The server under test: `kohort serve`, or for comparison an Apache Kafka or any address.

`KOHORT_INTEROP_PEER=kafka` runs the same tests against an Apache Kafka that is started for them,
`KOHORT_INTEROP_PEER=HOST:PORT` against a server that runs already (which is then not restarted).
"""

import os
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from interop.processes import DIE_WITH_PARENT
from peers.kafka import VERSION, Kafka

PEER = os.environ.get("KOHORT_INTEROP_PEER", "")
START_SECONDS = 30.0


class Target(Protocol):
    @property
    def address(self) -> str:
        """HOST:PORT for a client's bootstrap servers."""

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        """Stop the server with this signal, and start it again, so many seconds later, on the same
        data and port; back when it listens.
        """

    def stop(self) -> None:
        """End the server for good."""


class KohortServe:
    """`kohort serve --dev` as a process on a free port."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._port = free_port()
        self._settings = settings or {}
        self._start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def _start(self) -> None:
        kohort = Path(sysconfig.get_path("scripts")) / "kohort"
        data = self._directory / "data"
        command: list[str | Path] = [
            kohort,
            "serve",
            "--dev",
            "--listen",
            self.address,
            "--data",
            data,
        ]
        command += [f"--set={name}={value}" for name, value in self._settings.items()]
        with (self._directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=DIE_WITH_PARENT,
            )
        await_listening(self._port, self.process, self._directory / "server.log")

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        self._end(how)
        time.sleep(away_seconds)
        self._start()

    def _end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        code = self.process.wait(10)
        expected = 0 if how == signal.SIGTERM else -how
        assert code == expected, f"kohort serve ended with {code} on {how.name}\n{self.log_tail()}"

    def log_tail(self) -> str:
        return (self._directory / "server.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        if self.process.poll() is None:
            self._end(signal.SIGTERM)


class ApacheKafka:
    """One Apache Kafka node, as `peers.kafka` starts it."""

    def __init__(
        self, port: int, settings: Mapping[str, str] | None = None, version: str = VERSION
    ) -> None:
        self._node = Kafka.start(port, settings, heap="512m", version=version)

    @property
    def address(self) -> str:
        return self._node.address

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        return self._node.process

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        self._node.restart(how, away_seconds)

    def stop(self) -> None:
        self._node.stop()


class Running:
    """A server that someone else runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        raise NotImplementedError("a server that someone else runs is not restarted")

    def stop(self) -> None:
        """Someone else's."""


def start(directory: Path) -> Target:
    if not PEER:
        return KohortServe(directory)
    if PEER == "kafka":
        return ApacheKafka(int(os.environ.get("KOHORT_INTEROP_PORT", "29400")))
    return Running(PEER)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Back when the port takes connections; AssertionError with the end of the log if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(
                f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}"
            )
        time.sleep(0.02)
