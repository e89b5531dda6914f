"""The server under test: `kohort serve`, or for comparison an Apache Kafka or any address.

`KOHORT_INTEROP_PEER=postgres` runs the same tests against a server with its logs in PostgreSQL,
`KOHORT_INTEROP_PEER=kafka` against an Apache Kafka that is started for them, and
`KOHORT_INTEROP_PEER=HOST:PORT` against a server that runs already (which is then not restarted).
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from kohort.testing.server_process import ServerProcess, ServerProcessError
from kohort_conformance.runner import warm_up
from peers.kafka import QUICK_START, VERSION, Kafka, free_port
from peers.postgres import Postgres
from waiting import PATIENCE_S

PEER = os.environ.get("KOHORT_INTEROP_PEER", "")

each_server = pytest.mark.parametrize(
    "restartable",
    [
        pytest.param("", id=pytest.HIDDEN_PARAM),
        pytest.param("kafka", marks=[pytest.mark.clients, pytest.mark.long]),
    ],
    indirect=True,
)
"""Runs a test with `restartable` on the server under test, and on an Apache Kafka."""


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
    """`kohort serve --dev` as a process on a free port, which a restart keeps."""

    neighbours = 0
    """Ports above its own that it takes too."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._settings = settings
        # Below the ports of outgoing connections: none takes it while the server is away.
        self._server = self._start(f"127.0.0.1:{free_port(self.neighbours)}")
        self.address = self._server.address

    def _start(self, listen: str) -> ServerProcess:
        server = ServerProcess(
            *("--dev", "--listen", listen, *self._place()),
            log=self._directory / "server.log",
            settings=self._settings,
        )
        try:
            server.line("listening", PATIENCE_S)
        except ServerProcessError:
            server.kill()
            raise
        return server

    def _place(self) -> tuple[str, ...]:
        """The options that say where its data is."""
        return "--data", str(self._directory / "data")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._server.process

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        self._end(how)
        time.sleep(away_seconds)
        self._server = self._start(self.address)

    def _end(self, how: signal.Signals) -> None:
        code = self._server.stop(how)
        expected = 0 if how == signal.SIGTERM else -how
        assert code == expected, (
            f"kohort serve ended with {code} on {how.name}\n{self._server.log_tail()}"
        )

    def stop(self) -> None:
        if self.process.poll() is None:
            self._end(signal.SIGTERM)


class KohortInPostgres(KohortServe):
    """`kohort serve` with its logs in a PostgreSQL of its own."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._cluster = Postgres.start()
        try:
            super().__init__(directory, settings)
        except BaseException:
            self._cluster.stop()
            raise

    def _place(self) -> tuple[str, str]:
        return "--storage", self._cluster.url

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._cluster.stop()


class ApacheKafka:
    """One Apache Kafka node, as `peers.kafka` starts it."""

    def __init__(
        self, port: int, settings: Mapping[str, str] | None = None, version: str = VERSION
    ) -> None:
        self._node = Kafka.start(port, settings, heap="512m", version=version, flags=QUICK_START)

    @property
    def address(self) -> str:
        return self._node.address

    def warm_up(self) -> None:
        """Wait until the coordinators of all groups and transactional ids have started."""
        asyncio.run(warm_up(self._node.host, self._node.port))

    @property
    def data(self) -> Path:
        """The directory of its logs."""
        return self._node.directory / "log"

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


def ready_kafka(port: int) -> ApacheKafka:
    """A new Apache Kafka whose coordinators have started."""
    node = ApacheKafka(port)
    node.warm_up()
    return node


def start(directory: Path) -> Target:
    """The server under test, ready for all requests."""
    if not PEER:
        return KohortServe(directory)
    if PEER == "postgres":
        return KohortInPostgres(directory)
    if PEER == "kafka":
        return ready_kafka(int(os.environ.get("KOHORT_INTEROP_PORT", "29400")))
    return Running(PEER)
