"""Does to a simulation what a fault says, and undoes it when its time is over."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from functools import partial
from random import Random
from typing import Any

from kohort.errors import KohortError
from kohort.testing.simulation.faults import SERVER, Fault
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.network import DoomedMessage, Network
from kohort.testing.simulation.process import MAX_WORK_S, Process
from kohort.testing.simulation.programs import Program
from kohort.testing.simulation.server import SimulatedServer
from kohort.testing.simulation.timeline import Timeline

_MAX_LATENCY_S = 3.0
_MAX_SYNC_S = 1.0
"""Longest fsync of a slow disk."""


class Injector:
    """Injects faults until `calm`."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        server: SimulatedServer,
        programs: Mapping[str, Program],
        timeline: Timeline,
        random: Random,
    ) -> None:
        self._loop = loop
        self._network = network
        self._server = server
        self._programs = programs
        self._timeline = timeline
        self._random = random
        self._to_undo: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._effects: Mapping[str, Callable[[Fault], None]] = {
            "cut": self._cut,
            "lose request": self._lose,
            "lose response": self._lose,
            "partition": self._partition,
            "slow network": self._slow_down,
            "slow disk": self._slow_disk,
            "pause": self._pause,
            "crash": self._crash,
            "power loss": self._lose_power,
            "restart": self._restart,
            "clock jump": self._jump,
        }

    def inject(self, fault: Fault) -> None:
        """Do it now. Raises KohortError for an unknown target, or a server that cannot bear it."""
        if fault.target != SERVER and fault.target not in self._programs:
            names = ", ".join([SERVER, *self._programs])
            raise KohortError(f"no program {fault.target!r}: the targets of faults are {names}")
        if fault.kind == "power loss" and not self._server.is_durable:
            raise KohortError("after a power loss, a server without durability=fsync loses records")
        self._timeline.add(f"FAULT {fault}")
        self._effects[fault.kind](fault)

    async def calm(self) -> None:
        """Undo all faults now, and return when the server serves and all programs run again."""
        self._network.doomed.clear()
        for timer, undo in list(self._to_undo.items()):
            timer.cancel()
            undo()
        self._to_undo.clear()
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._server.start()
        for program in self._programs.values():
            program.start()

    # --- time ---

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        def due() -> None:
            del self._to_undo[timer]
            undo()

        timer = self._loop.call_later(seconds, due, context=Context())
        self._to_undo[timer] = undo

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, context=Context())
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task))

    # --- network ---

    def _cut(self, fault: Fault) -> None:
        self._network.cut(fault.target)

    def _lose(self, fault: Fault) -> None:
        doomed = DoomedMessage(fault.target, fault.kind == "lose response", fault.api)
        self._network.doomed.append(doomed)

    def _partition(self, fault: Fault) -> None:
        self._network.block(fault.target)
        self._later(fault.seconds, lambda: self._network.unblock(fault.target))

    def _slow_down(self, fault: Fault) -> None:
        self._network.slow_down(fault.target, _MAX_LATENCY_S * self._random.random() ** 2 + 0.01)
        self._later(fault.seconds, lambda: self._network.slow_down(fault.target, None))

    def _slow_disk(self, fault: Fault) -> None:
        process = self._server.process
        process.max_work_s = _MAX_SYNC_S
        self._later(fault.seconds, partial(setattr, process, "max_work_s", MAX_WORK_S))

    # --- processes ---

    def _process(self, fault: Fault) -> Process | None:
        if fault.target == SERVER:
            return self._server.process if self._server.is_running else None
        program = self._programs[fault.target]
        return program.process

    def _pause(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is not None:
            self._loop.pause(process)
            self._later(fault.seconds, lambda: self._loop.resume(process))

    def _jump(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is not None:
            process.clock_offset_s += fault.seconds

    def _crash(self, fault: Fault) -> None:
        if fault.target == SERVER:
            self._server.kill()
            self._later(fault.seconds, self._start_server)
        else:
            program = self._programs[fault.target]
            program.kill()
            self._later(fault.seconds, program.start)

    def _lose_power(self, fault: Fault) -> None:
        lost = self._server.lose_power()
        self._timeline.add(f"kafka: {lost} bytes were not synced and are lost")
        self._later(fault.seconds, self._start_server)

    def _restart(self, fault: Fault) -> None:
        self._spawn(self._stop_and_start(fault.seconds))

    async def _stop_and_start(self, seconds: float) -> None:
        await self._server.stop()
        self._later(seconds, self._start_server)

    def _start_server(self) -> None:
        self._spawn(self._server.start())
