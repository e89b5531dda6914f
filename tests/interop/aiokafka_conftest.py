"""Fixtures of aiokafka's own tests, with an embedded Kafka in place of a container.

`test_aiokafka_suite` puts this file in place of their conftest.py. Their tests of TLS, SASL, ACLs
and configs of a container are left out.
"""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kohort.testing import EmbeddedKafka

SETTINGS = {
    "num.partitions": "2",
    # One of their tests expects this default of Apache Kafka, another one that there is a delay.
    "group.min.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "300",
}


@dataclass
class KafkaServer:
    """As their tests know it."""

    host: str
    port: int

    @property
    def hosts(self) -> list[str]:
        return [f"{self.host}:{self.port}"]


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[KafkaServer]:
    with EmbeddedKafka(SETTINGS) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        yield KafkaServer(host, int(port))


@pytest.fixture(scope="session")
def docker_ip_address() -> str:
    return "127.0.0.1"


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop
) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop, kafka_server: KafkaServer
) -> None:
    known = {
        "loop": loop, "kafka_host": kafka_server.host, "kafka_port": kafka_server.port,
        "hosts": kafka_server.hosts, "kafka_version": "4.1.0", "ssl_folder": Path(),
        "kafka_ssl_port": 0, "kafka_sasl_plain_port": 0, "kafka_sasl_ssl_port": 0,
        "acl_manager": None, "kerberos_utils": None, "kafka_config": None,
    }  # fmt: skip
    for name, value in known.items():
        setattr(request.cls, name, value)
