"""Brokers in processes of their own, which the live tests restart, freeze and cut members off from:
Kohort, and Apache Kafka in its present and its last 3.x version.
"""

import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pytest

from interop.targets import ApacheKafka, KohortServe
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from live.client.door import Door
from peers import kafka

T = TypeVar("T")

SETTINGS = {"group.min.session.timeout.ms": "1000"}
KAFKA_SETTINGS = SETTINGS | {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",
}


@dataclass(frozen=True)
class Site:
    """A broker behind a door: what it advertises is the door's address, so that all that a client
    ever opens goes through it. An `interop.targets.Target`.
    """

    name: str
    server: KohortServe | ApacheKafka
    door: Door

    @property
    def address(self) -> str:
        return self.door.address

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        self.server.restart(how, away_seconds)

    def freeze(self, seconds: float) -> None:
        """The broker stands still, as in a long garbage collection: it takes connections, and
        answers nothing.
        """
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.server.process.send_signal(signal.SIGCONT)

    async def administer(self, ask: Callable[[Admin], Awaitable[T]]) -> T:
        """The answer to what is asked of an administrator's client."""
        async with Cluster(ClientConfig(bootstrap=self.address)) as cluster:
            return await ask(Admin(cluster))


def _kohort(directory: Path, advertised: str, settings: Mapping[str, str]) -> KohortServe:
    return KohortServe(directory, {**SETTINGS, **settings, "advertised.listeners": advertised})


def _apache_kafka(version: str) -> Callable[[Path, str, Mapping[str, str]], ApacheKafka]:
    def start(_: Path, advertised: str, settings: Mapping[str, str]) -> ApacheKafka:
        if reason := kafka.missing_tools(version):
            pytest.skip(reason)
        address = {"advertised.listeners": f"PLAINTEXT://{advertised}"}
        return ApacheKafka(
            kafka.free_port(neighbours=1), {**KAFKA_SETTINGS, **settings, **address}, version
        )

    return start


BROKERS: Mapping[str, Callable[[Path, str, Mapping[str, str]], KohortServe | ApacheKafka]] = {
    "kohort": _kohort,
    f"kafka-{kafka.VERSION}": _apache_kafka(kafka.VERSION),
    f"kafka-{kafka.LAST_OF_3}": _apache_kafka(kafka.LAST_OF_3),
}


@contextmanager
def opened(
    name: str, directory: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Site]:
    with Door() as door:
        server = BROKERS[name](directory, door.address, settings)
        door.upstream = server.address
        try:
            yield Site(name, server, door)
        finally:
            server.stop()
