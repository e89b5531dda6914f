"""The processes of a cluster under test."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kohort.testing.server_process import ServerProcess
from peers.kafka import free_port

NODES = (1, 2, 3)
PATIENCE_SECONDS = 90.0
"""More than `kohort nodes` has."""


class Nodes:
    """Three nodes; each has the same port whenever it starts."""

    def __init__(self, storage: str, directory: Path, settings: Mapping[str, str]) -> None:
        self._storage, self._directory = storage, directory
        self._settings = dict(settings)
        self._addresses = {node: f"127.0.0.1:{free_port()}" for node in NODES}
        self._servers: dict[int, ServerProcess] = {}
        self._hung: set[int] = set()

    @property
    def address(self) -> str:
        """As `bootstrap.servers`."""
        return ",".join(self._addresses.values())

    def address_of(self, node: int) -> str:
        """HOST:PORT of one node."""
        return self._addresses[node]

    def start(self, node: int) -> None:
        """Start the node; `await_listening` waits for it."""
        self._servers[node] = ServerProcess(
            f"--listen={self._addresses[node]}",
            f"--storage={self._storage}",
            log=self._directory / f"node-{node}.log",
            settings={**self._settings, "node.id": str(node)},
        )

    def start_all(self) -> None:
        """Start all nodes; back when they listen."""
        for node in NODES:
            self.start(node)
        self.await_listening()

    def kill_all(self) -> None:
        for node in self.running:
            self.end(node, signal.SIGKILL)

    def await_listening(self) -> None:
        for server in self._servers.values():
            server.line("listening")

    def ended(self) -> list[str]:
        """What to say of nodes that have ended by themselves; they are started again."""
        found = []
        for node in self.running:
            server = self._servers[node]
            if (code := server.process.poll()) is not None:
                found.append(f"node {node} ended by itself: {code}\n{server.log_tail()}")
                self.start(node)
        return found

    @property
    def running(self) -> list[int]:
        """Those that were started, and neither ended nor hang."""
        return sorted(self._servers.keys() - self._hung)

    def end(self, node: int, how: signal.Signals) -> int:
        """End the node with this signal; its exit code."""
        return self._servers.pop(node).stop(how)

    def hang(self, node: int) -> None:
        self._hung.add(node)
        self._servers[node].process.send_signal(signal.SIGSTOP)

    def go_on(self, node: int) -> None:
        self._hung.discard(node)
        self._servers[node].process.send_signal(signal.SIGCONT)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`kohort nodes`: it may fail when the database is away."""
        return subprocess.run(
            [sys.executable, "-m", "kohort", "nodes", *words, "--storage", self._storage],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def stop(self) -> None:
        for node in tuple(self._hung):
            self.go_on(node)
        for server in self._servers.values():
            server.kill()
