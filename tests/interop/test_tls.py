"""librdkafka with a client certificate, and the renewal of the server's while it is connected."""

import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kohort.testing.server_process import ServerProcess
from server.certificates import Authority

pytestmark = pytest.mark.interop


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[ServerProcess]:
    process = ServerProcess(
        *("--memory", "--dev", "--listen", "SSL://127.0.0.1:0"),
        log=tmp_path / "server.log",
        settings={
            "ssl.keystore.location": str(authority.issue("server.pem", common_name="kohort")),
            "ssl.truststore.location": str(authority.file),
            "ssl.client.auth": "required",
        },
    )
    try:
        process.line("listening")
        yield process
    finally:
        process.kill()


def options(
    server: ServerProcess, authority: Authority, certificate: Path | None
) -> dict[str, str]:
    given = {
        "bootstrap.servers": server.address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.file),
    }
    if certificate is not None:
        given["ssl.certificate.location"] = given["ssl.key.location"] = str(certificate)
    return given


def test_records_go_through_mutual_tls(server: ServerProcess, authority: Authority) -> None:
    with_certificate = options(server, authority, authority.issue("alice.pem", common_name="alice"))
    producer = Producer(with_certificate)
    for number in range(2_000):
        producer.produce("t", b"x" * 1_000, str(number).encode())
        producer.poll(0)
    assert producer.flush(30) == 0
    consumer = Consumer(with_certificate | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = 0
    while found < 2_000:
        found += len(consumer.consume(500, 30))
    consumer.close()


def test_a_client_without_a_certificate_gets_nothing(
    server: ServerProcess, authority: Authority
) -> None:
    producer = Producer(options(server, authority, None) | {"socket.timeout.ms": "2000"})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=3)


def test_certificates_are_renewed_by_a_signal(server: ServerProcess, authority: Authority) -> None:
    certificate = authority.issue("alice.pem", common_name="alice")
    producer = Producer(options(server, authority, certificate))
    producer.list_topics(timeout=60)
    before = serial_number(server, authority, certificate)
    authority.issue("server.pem", common_name="kohort")
    server.process.send_signal(signal.SIGHUP)
    server.line("certificates reloaded")
    assert serial_number(server, authority, certificate) != before
    assert producer.list_topics(timeout=60).cluster_id


def serial_number(server: ServerProcess, authority: Authority, certificate: Path) -> str:
    host, _, port = server.address.rpartition(":")
    context: ssl.SSLContext = authority.client(certificate)
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        found = encrypted.getpeercert()
        assert found is not None
        return str(found["serialNumber"])
