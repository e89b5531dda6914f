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
from pathlib import Path
from typing import Protocol

from interop.processes import DIE_WITH_PARENT
from interop.programs import java
from peers.kafka import Kafka

PEER = os.environ.get("KOHORT_INTEROP_PEER", "")
START_SECONDS = 30.0


class Target(Protocol):
    @property
    def address(self) -> str:
        """HOST:PORT for a client's bootstrap servers."""

    def restart(self, how: signal.Signals) -> None:
        """Stop the server with this signal and start it again on the same data and port; back when it listens."""

    def stop(self) -> None:
        """End the server for good."""


class KohortServe:
    """`kohort serve --dev` as a process on a free port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process = self._start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def _start(self) -> subprocess.Popen[bytes]:
        kohort = Path(sysconfig.get_path("scripts")) / "kohort"
        command: list[str | Path] = [
            kohort,
            "serve",
            "--dev",
            "--listen",
            self.address,
            "--data",
            self._directory / "data",
        ]
        with (self._directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=DIE_WITH_PARENT
            )
        await_listening(self._port, process, self._directory / "server.log")
        return process

    def restart(self, how: signal.Signals) -> None:
        self._end(how)
        self._process = self._start()

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        code = self._process.wait(10)
        expected = 0 if how == signal.SIGTERM else -how
        assert code == expected, f"kohort serve ended with {code} on {how.name}\n{self.log_tail()}"

    def log_tail(self) -> str:
        return (self._directory / "server.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        if self._process.poll() is None:
            self._end(signal.SIGTERM)


class ApacheKafka:
    """One Apache Kafka node, as `peers.kafka` starts it."""

    def __init__(self) -> None:
        self._node = Kafka.start(port=int(os.environ.get("KOHORT_INTEROP_PORT", "29400")), heap="512m")

    @property
    def address(self) -> str:
        return self._node.address

    def restart(self, how: signal.Signals) -> None:
        self._node.process.send_signal(how)
        self._node.process.wait(60)
        log = self._node.directory / "server.log"
        command = java("kafka.Kafka", str(self._node.directory / "server.properties"), heap="512m")
        with log.open("ab") as out:
            self._node.process = subprocess.Popen(command, stdout=out, stderr=out)
        await_listening(self._node.port, self._node.process, log)

    def stop(self) -> None:
        self._node.stop()


class Running:
    """A server that someone else runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    def restart(self, how: signal.Signals) -> None:
        raise NotImplementedError("a server that someone else runs is not restarted")

    def stop(self) -> None:
        """Someone else's."""


def start(directory: Path) -> Target:
    if not PEER:
        return KohortServe(directory)
    return ApacheKafka() if PEER == "kafka" else Running(PEER)


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
            raise AssertionError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.02)
