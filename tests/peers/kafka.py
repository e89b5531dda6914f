"""Apache Kafka as the judge: its JARs resolved by Maven, one KRaft node started and stopped.

`Kafka.start()` is for tests and for `make conformance`; as a program it runs one node until Ctrl-C:

    python tests/peers/kafka.py [--version 4.4.0] [--port 29300] [--set NAME=VALUE]…

The JARs stay in `.tools/kafka-VERSION/` of the repository (git ignores it); the data lives in a
temporary directory that goes with the node. A node needs Java 17 and about 650 MB of memory, and
listens after about 5 s. `__consumer_offsets` is only made at the first FindCoordinator:
`kohort_conformance.runner.warm_up` waits for it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

VERSION = "4.4.0"
LAST_OF_3 = "3.9.1"
"""The last line that still has the old message versions which 4.0 dropped (KIP-896)."""
TOOLS = Path(__file__).resolve().parents[2] / ".tools"
SASL_BETWEEN_BROKERS = {
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
"""What a broker that clients log in to needs for itself."""
HEAP = "768m"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVM flags for a short life: about a third less processor time until the node has warmed up."""
SERVER = ("-XX:+UseG1GC",)
"""JVM flags of a node that is measured."""
START_SECONDS = 180.0


class KafkaUnavailableError(RuntimeError):
    """Kafka cannot be had or started here; the text says why."""


def missing_tools(version: str = VERSION) -> str | None:
    """Why no Kafka can run here, or None: what tests print when they skip."""
    if shutil.which("java") is None:
        return "Apache Kafka needs a Java runtime (17 or newer) on the PATH"
    if not _is_resolved(TOOLS / f"kafka-{version}", version) and shutil.which("mvn") is None:
        return "Apache Kafka's JARs are resolved by Maven, which is not on the PATH"
    return None


def _is_resolved(home: Path, version: str) -> bool:
    return any(home.glob(f"libs/kafka_2.13-{version}.jar")) and any(
        home.glob("libs/kafka-tools-*.jar")
    )


def resolve(tools: Path = TOOLS, version: str = VERSION) -> Path:
    """The directory with Kafka's JARs and their dependencies, fetched from Maven Central when
    missing.
    """
    home = tools / f"kafka-{version}"
    with building(home.name):
        _fetch(home, version)
    return home / "libs"


@contextmanager
def building(name: str) -> Iterator[None]:
    """Hold the lock for one part of `.tools/`: test processes beside each other build it once."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(home: Path, version: str) -> None:
    if not _is_resolved(home, version):
        home.mkdir(parents=True, exist_ok=True)
        pom = home / "pom.xml"
        pom.write_text(_pom(version))
        _run(
            [
                "mvn",
                "-B",
                "-q",
                "-f",
                str(pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={home}/libs",
            ],
            "Maven could not resolve Apache Kafka",
        )


def _pom(version: str) -> str:
    artifacts = (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    )
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{of}</version></dependency>"
        for group, artifact, of in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kohort.peers</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def _run(command: Sequence[str], complaint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KafkaUnavailableError(f"{complaint}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def properties(port: int, data: Path, overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """A combined broker and controller on `port` and `port` + 1, without rebalance delay."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.dirs": str(data / "log"),
        **(SASL_BETWEEN_BROKERS if "sasl.enabled.mechanisms" in (overrides or {}) else {}),
        **(overrides or {}),
    }


@dataclass
class Kafka:
    """A running node; a context manager that stops it and removes its data."""

    host: str
    port: int
    directory: Path
    libs: Path
    heap: str
    flags: Sequence[str]
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def start(
        cls,
        port: int = 29300,
        overrides: Mapping[str, str] | None = None,
        heap: str = HEAP,
        version: str = VERSION,
        flags: Sequence[str] = SERVER,
    ) -> Self:
        """Format a fresh directory and start a node in it; back when its port takes connections."""
        if reason := missing_tools(version):
            raise KafkaUnavailableError(reason)
        for used in (port, port + 1):
            if listens(used):
                raise KafkaUnavailableError(f"port {used} is taken")
        libs = resolve(version=version)
        directory = Path(tempfile.mkdtemp(prefix="kohort-kafka-"))
        node = cls("127.0.0.1", port, directory, libs, heap, flags)
        node._settings.write_text(
            "".join(f"{k}={v}\n" for k, v in properties(port, directory, overrides).items())
        )
        format_ = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "4L6g3nShT-eMCtK--X86sw",
            "-c",
            str(node._settings),
        ]
        try:
            _run([*node._java, *QUICK_START, *format_], "Kafka's storage could not be formatted")
            node._run()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return node

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _java(self) -> list[str]:
        return [
            "java",
            f"-Xmx{self.heap}",
            "-cp",
            f"{self.libs}/*",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]

    def _run(self) -> None:
        command = [*self._java, *self.flags, "kafka.Kafka", str(self._settings)]
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._await_listening()

    def _await_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = (self.directory / "server.log").read_text(errors="replace")[-3000:]
                self.stop()
                raise KafkaUnavailableError(f"Kafka did not start:\n{tail}")
            time.sleep(0.1)

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        """End the node with this signal and start it on the same data and port, after so many
        seconds of absence.
        """
        self.process.send_signal(how)
        self.process.wait(60)
        time.sleep(away_seconds)
        self._run()

    def stop(self) -> None:
        """Kill the node (its data is thrown away, so nothing is worth a clean shutdown) and remove
        its data.
        """
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def free_port(neighbours: int = 0) -> int:
    """A port that is free now, and the next `neighbours` above it too: a node needs one.

    Below the range from which the system gives ports to outgoing connections: one of those would
    take a neighbour.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        if all(_is_free(port + one) for one in range(neighbours + 1)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether a server listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one Apache Kafka node until Ctrl-C.")
    parser.add_argument("--version", default=VERSION)
    parser.add_argument("--port", type=int, default=29300)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides"
    )
    options = parser.parse_args()
    overrides = dict(item.split("=", 1) for item in options.overrides)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Kafka.start(options.port, overrides, version=options.version) as node:
        print(
            f"Apache Kafka {options.version} on {node.address}, data in {node.directory} "
            f"(pid {os.getpid()})",
            flush=True,
        )
        try:
            node.process.wait()
        except KeyboardInterrupt:
            print("stopping", flush=True)


if __name__ == "__main__":
    main()
