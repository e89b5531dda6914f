"""The real server as a process of a simulation, whose data survive the process."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from kohort.server.broker import Broker
from kohort.server.config import Config, waits_for_disk
from kohort.testing.embedded.embedded_server import DEFAULTS
from kohort.testing.simulation.disk import Disk, DiskDirectory
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.machine_sources import EPOCH_S
from kohort.testing.simulation.network import SERVER_HOST, SERVER_IP, SERVER_PORT, Network
from kohort.testing.simulation.process import Process
from kohort.types import Instant, Timestamp

SETTINGS: Final[Mapping[str, object]] = {
    **{name: value for name, value in DEFAULTS.items() if ".consumer." not in name},
    "listeners": f"{SERVER_IP}:{SERVER_PORT}",
    "durability": "fsync",
}
"""Settings of a simulated server: acknowledged records survive a power loss."""


class ProcessClock:
    """The clocks of a process, as the server takes them."""

    def __init__(self, loop: SimulatedLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def now(self) -> Instant:
        return Instant(int(self._loop.time() * 1_000))

    def timestamp(self) -> Timestamp:
        seconds = EPOCH_S + self._loop.time() + self._process.clock_offset_s
        return Timestamp(int(seconds * 1_000))


class SimulatedServer:
    """A server alone, whose processes follow each other."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        random: Random,
        settings: Mapping[str, object],
        on_start: Callable[[], None],
    ) -> None:
        """`on_start` is called whenever a process serves all groups. Raises ConfigError."""
        self.settings = {**SETTINGS, **settings}
        self.is_durable = waits_for_disk(Config(self.settings))
        """Whether acknowledged records survive a power loss."""
        self.disk = Disk()
        self.ended: list[Process] = []
        """The processes before the current one."""
        self._directory: DiskDirectory | None = None
        """The logs of the process; None until it has opened them."""
        self._loop = loop
        self._network = network
        self._random = random
        self._on_start = on_start
        self._changing = asyncio.Lock()
        self.process: Process
        self.broker: Broker
        """The one that serves, or has served last."""
        self.is_running = False
        self.has_started = asyncio.Event()
        """Set while the server serves all groups."""

    async def start(self) -> None:
        """Start a process, and return when it serves all groups. Raises KohortError."""
        async with self._changing:
            await self._start()

    async def _start(self) -> None:
        if self.is_running:
            return
        self.process = Process("kafka", SERVER_HOST)
        self._network.server_process = self.process
        self._network.host_is_up(SERVER_HOST)
        opening = Broker(
            Config(self.settings),
            clock=ProcessClock(self._loop, self.process),
            logs=self._open_logs,
            listen=self._network.listen,
        )
        self.is_running = True
        self._directory = None
        await self._in_process(self._serve(opening))
        if self.is_running:
            self.broker = opening
            self.has_started.set()
            self._on_start()

    def _open_logs(self) -> DiskDirectory:
        self._directory = DiskDirectory(self.disk, durable=self.is_durable)
        return self._directory

    async def _serve(self, opening: Broker) -> None:
        await opening.start()
        await opening.groups.loaded()
        await opening.transactions.loaded()

    async def stop(self) -> None:
        """Stop the process in order, as by SIGTERM."""
        async with self._changing:
            if self.has_started.is_set():
                self.has_started.clear()
                await self._in_process(self.broker.close())
                if self.is_running:
                    self._end(host_is_down=False)

    def kill(self) -> None:
        """Kill the process; the disk has all that it wrote."""
        if self.is_running:
            if self._directory is not None:
                self._directory.save()
            self._end(host_is_down=False)

    def lose_power(self) -> int:
        """Turn the machine off; returns how many bytes were not synced and are lost."""
        if not self.is_running:
            return 0
        lost = 0
        if self._directory is not None:
            self._directory.save()
            lost = self._directory.lose_unsynced(self._random)
        self._end(host_is_down=True)
        return lost

    def _end(self, *, host_is_down: bool) -> None:
        self.is_running = False
        self.has_started.clear()
        self._loop.end(self.process)
        self._network.process_ended(self.process, host_is_down=host_is_down)
        self.ended.append(self.process)
        if self._in_progress is not None and not self._in_progress.done():
            self._in_progress.set_result(None)

    _in_progress: "asyncio.Future[None] | None" = None

    async def _in_process(self, work: Any) -> None:
        """Run a coroutine in the server's process, until it ends or the process is killed."""
        ended: asyncio.Future[None] = self._loop.create_future()
        self._in_progress = ended
        task = self._loop.create_task(work, context=self.process.context)

        def done(task: "asyncio.Task[None]") -> None:
            if ended.done():
                return
            error = None if task.cancelled() else task.exception()
            ended.set_exception(error) if error is not None else ended.set_result(None)

        task.add_done_callback(done)
        await ended
