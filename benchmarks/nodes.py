"""Three nodes of a cluster on a PostgreSQL of their own, and what is done to them."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.postgres import Postgres

from benchmarks import processes
from benchmarks.servers import start_postgres
from kohort.cluster import LEASE_MS
from kohort.testing.server_process import ServerProcess

WITHIN_S: Final = 120.0
LOCKS_TRUSTED_AFTER_S: Final = 2 * LEASE_MS / 1000 + 1
GROUPS: Final = "__consumer_offsets"


class Nodes:
    """The nodes, each with an id from 1 on, and an address that it keeps."""

    def __init__(
        self,
        database: Postgres,
        directory: Path,
        stack: ExitStack,
        environment: Mapping[str, str] | None,
    ) -> None:
        self.servers: dict[int, ServerProcess] = {}
        self._addresses: dict[int, str] = {}
        self._database = database
        self._began = time.monotonic()
        self._directory = directory
        self._stack = stack
        self._environment = environment

    def start(self, node: int, settings: Mapping[str, str] | None = None) -> None:
        """Start a node, or start it again; it listens on return."""
        listen = self._addresses.get(node, "127.0.0.1:0")
        server = self._stack.enter_context(
            ServerProcess(
                *("--listen", listen),
                log=self._directory / f"{node}.log",
                settings={
                    "storage": self._database.url,
                    "node.id": str(node),
                    "cluster.rebalance.delay.ms": "0",
                    "group.initial.rebalance.delay.ms": "0",
                    **(settings or {}),
                },
                environment=self._environment,
            )
        )
        self.servers[node], self._addresses[node] = server, server.address

    @property
    def bootstrap(self) -> str:
        return ",".join(self._addresses.values())

    def hit(self, node: int, number: signal.Signals) -> float:
        """Send a node a signal, and return when: PostgreSQL has been up long enough by then.

        Soon after its start, the nodes do not trust its locks.
        """
        time.sleep(max(self._began + LOCKS_TRUSTED_AFTER_S - time.monotonic(), 0))
        self.servers[node].process.send_signal(number)
        return time.monotonic()

    def cpu_seconds(self, node: int) -> float:
        return processes.cpu_seconds(self.servers[node].process.pid)

    def database_cpu_seconds(self) -> float:
        return processes.cpu_seconds(self._database.process.pid)

    def drain(self, node: int) -> None:
        """Have other nodes lead what a node leads. Raises subprocess.CalledProcessError."""
        command = (sys.executable, "-m", "kohort", "nodes", "drain", str(node))
        subprocess.run(
            (*command, f"--storage={self._database.url}"),
            check=True,
            capture_output=True,
            env=self._environment,
        )

    def create(self, topic: str, partitions: int) -> None:
        admin = self._admin()
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(WITHIN_S)
        self.until(lambda: -1 not in self.leaders(topic).values())

    def leaders(self, topic: str) -> dict[int, int]:
        """The node that leads each partition, -1 without any."""
        found = self._admin().list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
        return {number: each.leader for number, each in found.items()}

    def even(self, topic: str) -> None:
        """Wait until all nodes lead as many partitions of a topic, and of groups."""

        def is_even() -> bool:
            spread = [list(self.leaders(each).values()) for each in (topic, GROUPS)]
            counts = [[each.count(node) for node in self.servers] for each in spread]
            return all(max(each) - min(each) <= 1 for each in counts)

        self.until(is_even)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the cluster does not get into the state to be measured")
            time.sleep(0.1)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


@contextmanager
def cluster(environment: Mapping[str, str] | None = None) -> Iterator[Nodes]:
    """PostgreSQL with fsync, and no node yet, which will run in the environment.

    Raises MissingError without PostgreSQL.
    """
    with ExitStack() as stack:
        database = stack.enter_context(start_postgres())
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-"))
        yield Nodes(database, Path(directory), stack, environment)
