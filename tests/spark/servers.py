"""The servers under test: `kohort serve` and Apache Kafka. A test with `topics` runs against each,
unless it says `kohort_only` or `kafka_only`.
"""

import asyncio
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kohort.testing.server_process import ServerProcess
from kohort_conformance.runner import warm_up
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from peers.kohort import kohort

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # records in tests are of a fixed day
    "offsets.topic.num.partitions": "2",
}

KOHORT = pytest.param("kohort")
KAFKA = pytest.param("kafka", marks=pytest.mark.clients)
kohort_only = pytest.mark.parametrize("topics", [KOHORT], indirect=True)
kafka_only = pytest.mark.parametrize("topics", [KAFKA], indirect=True)


@contextmanager
def server(kind: str) -> Iterator[str]:
    """One that is ready; its address. Skips where there is no Java for Apache Kafka."""
    if kind == "kafka" and (reason := missing_tools()):
        pytest.skip(reason)
    with (kohort if kind == "kohort" else apache_kafka)(SETTINGS) as address:
        yield address


@contextmanager
def apache_kafka(settings: Mapping[str, str]) -> Iterator[str]:
    """One node, whose coordinators have started."""
    with Kafka.start(free_port(neighbours=1), settings, heap="512m", flags=QUICK_START) as node:
        asyncio.run(warm_up(node.host, node.port))
        yield node.address


class KohortServer:
    """A server that keeps its data when it is killed."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self._directory, self._settings = directory, settings
        self.address = "127.0.0.1:0"
        self._start()

    def _start(self) -> None:
        options = ("--data", str(self._directory / "data"), "--listen", self.address)
        log = self._directory / "server.log"
        self._process = ServerProcess(*options, log=log, settings=self._settings)
        self.address = self._process.address

    def is_killed(self) -> None:
        self._process.kill()
        self._start()

    def stop(self) -> None:
        self._process.kill()


class KafkaServer:
    """The same of Apache Kafka, whose data goes with it; skips where it cannot run."""

    def __init__(self, _: Path) -> None:
        if reason := missing_tools():
            pytest.skip(reason)
        port = free_port(neighbours=1)
        self._node = Kafka.start(port, SETTINGS, heap="512m", flags=QUICK_START)
        self.address = self._node.address

    def is_killed(self) -> None:
        self._node.restart(signal.SIGKILL)

    def stop(self) -> None:
        self._node.stop()
