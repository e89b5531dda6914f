"""A chaos run of one server that is killed and started again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from kohort.testing.server_process import ServerProcess
from live.chaos.run import RECOVERY_SECONDS, Run
from live.chaos.settings import SERVER_SETTINGS, SESSION_MS
from live.chaos.workers import addresses, all_listen, kill_any
from peers.kafka import free_port
from waiting import until

STARTING_SHARE = 0.15
"""Kills that come before the server listens."""
BRIEF_SHARE = 0.4
"""Kills that come while clients still return."""
BRIEF_SECONDS = (0.05, 1.0)
WORKING_SECONDS = (1.0, 6.0)
"""How long the server lives else, after it listens."""
CALM_EVERY = 10
"""Kills from one calm to the next."""
CALM_SECONDS = (SESSION_MS / 1000 + 1, SESSION_MS / 1000 + 4)
"""A member that ended while the server was down is expired, for which its session begins anew with
each start; without a calm, groups would wait for such members all the time, and commit nothing.
"""
DOWN_SECONDS = (0.0, 0.4)


class Chaos(Run):
    """One run. `while_down` is called with this object after each kill."""

    def __init__(
        self,
        directory: Path,
        *,
        kills: int,
        seed: int,
        durability: str = "os",
        storage: str = "",
        workers: int = 1,
        recovery_seconds: float = RECOVERY_SECONDS,
        while_down: Callable[["Chaos"], None] = lambda _: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`storage`: the URL of the database with the logs; "" if they are in files.
        `workers`: processes of the server; if several, each kill is of one of them or of all.
        """
        self._first = f"127.0.0.1:{free_port(workers - 1)}"
        super().__init__(
            addresses(self._first, workers),
            directory / "clients.log",
            kills=kills,
            seed=seed,
            recovery_seconds=recovery_seconds,
            report=report,
        )
        self.data = directory / "data"
        self._log = directory / "server.log"
        self._place = f"--storage={storage}" if storage else f"--data={self.data}"
        self._durability, self._while_down = durability, while_down
        self._workers = workers

    def _started(self) -> ServerProcess:
        return ServerProcess(
            f"--listen={self._first}",
            f"--workers={self._workers}",
            self._place,
            f"--durability={self._durability}",
            log=self._log,
            settings=SERVER_SETTINGS,
        )

    async def start(self) -> None:
        self._server = self._started()
        await self.heal()

    async def heal(self) -> None:
        await asyncio.to_thread(self._server.line, "listening")
        await until(lambda: all_listen(self.address), self._server.log_tail)

    async def disturb(self) -> None:
        """Kill the server at a random moment, and start the next one."""
        kind = self.random.random()
        is_calm = self.killed % CALM_EVERY == CALM_EVERY - 1
        if kind < STARTING_SHARE and not is_calm:
            await asyncio.sleep(self.random.uniform(0, 0.8))
        else:
            span = BRIEF_SECONDS if kind < STARTING_SHARE + BRIEF_SHARE else WORKING_SECONDS
            if is_calm:
                span = CALM_SECONDS
            await self.heal()
            await asyncio.sleep(self.random.uniform(*span))
        ended = self._server.process.poll()
        if ended is not None:
            self.ledger.violation(f"the server ended by itself: {ended}\n{self._server.log_tail()}")
        has_ended = await asyncio.to_thread(self._kill)
        self.count_kill()
        self._while_down(self)
        await asyncio.sleep(self.random.uniform(*DOWN_SECONDS))
        if has_ended:
            self._server = self._started()

    def _kill(self) -> bool:
        """Kill the server, or a worker. Returns whether the server has ended."""
        if self._workers > 1:
            return kill_any(self._server, self.random)
        self._server.kill()
        return True

    def stop(self) -> None:
        self._server.stop()
