"""`kohort serve --workers`, of which one worker, the parent, or all processes are killed."""

import os
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from interop.targets import KohortServe
from kohort.testing.server_process import ServerProcess
from peers.kafka import listens
from processes import children, is_alive
from waiting import wait_until

WORKERS: Final = 2
WORKER_SHARE: Final = 0.6
"""Kills of one worker, which the parent starts again."""
PARENT_SHARE: Final = 0.2
"""Kills of the parent alone, whose workers end by themselves."""


def addresses(first: str, workers: int) -> str:
    """The `bootstrap.servers` of workers, of which the first listens at `first`."""
    host, _, port = first.rpartition(":")
    return ",".join(f"{host}:{int(port) + worker}" for worker in range(workers))


def all_listen(bootstrap: str) -> bool:
    return all(listens(int(each.rpartition(":")[2])) for each in bootstrap.split(","))


def kill_any(server: ServerProcess, rng: random.Random) -> bool:
    """Kill one worker, the parent, or all processes. Returns whether the server has ended.

    Raises AssertionError if workers outlive their parent.
    """
    server.process.send_signal(signal.SIGSTOP)  # it starts no other worker meanwhile
    workers = children(server.process.pid)
    kind = rng.random()
    if workers and kind < WORKER_SHARE:
        os.kill(rng.choice(workers), signal.SIGKILL)
        server.process.send_signal(signal.SIGCONT)
        return False
    server.kill()
    if kind >= WORKER_SHARE + PARENT_SHARE:
        for worker in workers:
            with suppress(ProcessLookupError):  # one that has ended without its parent already
                os.kill(worker, signal.SIGKILL)
    wait_until(
        lambda: not any(map(is_alive, workers)), f"the end of {workers} after that of their parent"
    )
    return True


class KohortWorkers(KohortServe):
    """Workers as one server under test; a restart kills one or all of its processes."""

    neighbours = WORKERS - 1

    def __init__(self, directory: Path, settings: Mapping[str, str], rng: random.Random) -> None:
        self._random = rng
        super().__init__(directory, settings)
        self._first = self.address
        self.address = addresses(self._first, WORKERS)

    def _place(self) -> tuple[str, ...]:
        return *super()._place(), f"--workers={WORKERS}"

    def restart(self, how: signal.Signals, away_seconds: float = 0) -> None:
        """Kill any of the processes, whatever `how`; back when all workers listen."""
        assert how is signal.SIGKILL
        if kill_any(self._server, self._random):
            time.sleep(away_seconds)
            self._server = self._start(self._first)
        wait_until(lambda: all_listen(self.address), self._server.log_tail)
