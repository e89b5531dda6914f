"""A standalone Spark cluster: a master and workers, each a JVM of its own, as the PySpark package
brings them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from peers.kafka import free_port
from peers.spark import options as java_options

PATIENCE_S = 120.0
HOST = "127.0.0.1"


@contextmanager
def standalone(
    directory: Path, hosts: Sequence[str] = (HOST, HOST), temporary: Path | None = None
) -> Iterator[str]:
    """The master's address, when a worker of each host has registered.

    `temporary`: where executors have their own files.
    """
    own = {} if temporary is None else {"TMPDIR": str(temporary)}
    port = free_port()
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        master = directory / "master.log"
        stack.enter_context(
            _node(
                master,
                own,
                "master.Master",
                "--host",
                HOST,
                "--port",
                str(port),
                "--webui-port",
                "0",
            )
        )
        _await(lambda: "New state: ALIVE" in master.read_text(), master)
        for number, host in enumerate(hosts):
            log, work = directory / f"worker-{number}.log", str(directory / f"work-{number}")
            options = [
                "--host",
                host,
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                work,
            ]
            own_host = own | {"SPARK_LOCAL_IP": host}
            stack.enter_context(_node(log, own_host, "worker.Worker", *options, address))
        _await(lambda: master.read_text().count("Registering worker") >= len(hosts), master)
        yield address


@contextmanager
def _node(log: Path, own: Mapping[str, str], name: str, *options: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        **own,
    }
    environment |= {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        "JDK_JAVA_OPTIONS": " ".join(java_options()),  # of the executors too
    }
    with log.open("wb") as out:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()  # its shutdown hook ends the executors
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _await(holds: Any, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)
