"""kafka-go's own tests, which come with its module: about four minutes."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.built import BUILT, GO, SOURCES, BuildError, run
from kohort.testing.child_processes import die_with_parent
from kohort.testing.server_process import ServerProcess
from peers.kafka import VERSION, building, free_port

pytestmark = [
    pytest.mark.interop,
    pytest.mark.clients,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

MODULE = "github.com/segmentio/kafka-go"
NOT_SERVED = (
    "TestClientAlterClientQuotas",
    "Test(Alter|Describe)UserScramCredentials",
    "TestClient(Create|Delete|Describe)ACLs",
    "TestUnsupportedSASLMechanism",
    "TestWriter/.*SASL",
)
FAIL_ON_KAFKA = (
    "TestReaderReadCompactedMessage",  # has a config that Kafka 4 refuses
    "TestReaderConsumerGroup/.*rebalance",
    "TestReaderConsumerGroup/.*commit",  # the helper `getOffsets` panics
)
"""Tests that an Apache Kafka of the same settings does not pass either."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server as the tests expect it: their limit of a message, broker 1, at localhost."""
    directory, port = tmp_path_factory.mktemp("server"), free_port()
    options = ("--listen", f"127.0.0.1:{port}", "--advertise", f"localhost:{port}")
    settings = {"node.id": "1", "message.max.bytes": "200000000"}
    data = ("--data", str(directory / "data"))
    with ServerProcess(*options, *data, log=directory / "log", settings=settings) as server:
        server.line("listening")
        yield server


def compiled(port: str) -> Path:
    """The directory with its compiled tests, whose broker is at this port."""
    if reason := GO.missing():
        pytest.skip(f"kafka-go's tests: {reason}")
    home = BUILT / "kafka-go-tests"
    listed = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    module = subprocess.run(
        listed, cwd=SOURCES / "go", capture_output=True, text=True, check=True
    ).stdout.strip()
    with building("kafka-go-tests"):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(module, home, copy_function=shutil.copyfile)
        for file in home.rglob("*.go"):
            file.write_text(re.sub(r"\b9092\b", port, file.read_text()))
        try:
            run(["go", "test", "-mod=mod", "-c", "-o", "suite", "."], home)
        except BuildError as error:
            pytest.skip(f"kafka-go's tests: {error}")
    return home


def test_kafka_gos_own_tests_pass(server: ServerProcess) -> None:
    """Its `consumergroup`, `reader`, `writer`, `conn`, `client` and all other tests."""
    home = compiled(server.address.rpartition(":")[2])
    skipped = "|".join((*NOT_SERVED, *FAIL_ON_KAFKA))
    done = subprocess.run(
        ["./suite", "-test.v", "-test.timeout=800s", f"-test.skip={skipped}"],
        cwd=home,
        env={"KAFKA_VERSION": VERSION, "KAFKA_SKIP_NETTEST": "1", "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=die_with_parent(),
    )
    failed = re.findall(r"^\s*--- FAIL: (\S+)", done.stdout, re.MULTILINE)
    assert not failed, done.stdout[-6000:]
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(re.findall(r"^--- PASS", done.stdout, re.MULTILINE)) > 100
