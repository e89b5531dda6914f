"""The event loop of a simulation: time that jumps from event to event, and several processes.

All processes of a simulation share one loop, one thread and one clock. A callback belongs to the
process in whose context it was scheduled. Callbacks of one process run in the order in which they
became due, as asyncio promises. Between processes the order is random, by the seed: they would run
on several machines. When no callback is ready, time jumps to the next timer. Code takes no time.

Nothing depends on the machine: functions for `run_in_executor` run on the loop after a short random
delay, and tasks have hash values that are the same in each run, because asyncio keeps them in sets.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, Protocol

from kohort.testing.simulation.process import Process, ProcessState, current_process


class SimulationStuckError(RuntimeError):
    """Nothing is left to happen, or far too much happens."""


class Connects(Protocol):
    """The network, as the loop uses it."""

    def resolve(self, host: Any, port: Any) -> list[tuple[Any, ...]]:
        """As `getaddrinfo`. Raises socket.gaierror."""
        ...

    async def connect(
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        """A transport and its protocol. Raises OSError."""
        ...


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash value is its number."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number  # asyncio hashes the task while it is made
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs the callbacks of all processes of a simulation. `network` makes their connections."""

    network: Connects

    def __init__(self, random: Random, max_steps: int) -> None:
        """Raises SimulationStuckError in `run_until_complete` after `max_steps`."""
        super().__init__()
        self.steps = 0
        """Callbacks that ran: a message that arrived, a timer, a task that went on."""
        self.main = Process("scenario", "scenario")
        """The process of whatever has no other one."""
        self._random = random
        self._max_steps = max_steps
        self._now_s = 0.0
        self._timers: list[tuple[float, int, Process, asyncio.TimerHandle]] = []
        self._runnable: list[Process] = []
        self._numbers = itertools.count(1)
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Tasks that have not ended, those of killed processes included."""
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now_s

    # --- processes ---

    def pause(self, process: Process) -> None:
        """Stop a process until `resume`."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.PAUSED
            if process in self._runnable:
                self._runnable.remove(process)

    def resume(self, process: Process) -> None:
        """Let a paused process run again, with all that became due meanwhile."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            if process.ready:
                self._runnable.append(process)

    def end(self, process: Process) -> None:
        """Kill a process: nothing of it runs any more."""
        self.pause(process)
        process.state = ProcessState.ENDED

    def revive(self, process: Process) -> None:
        """Let a killed process run again, to clean up after the simulation."""
        process.state = ProcessState.PAUSED
        self.resume(process)

    def stop_running(self) -> None:
        """Stop after this callback, if one runs."""
        if self.is_running():
            self.stop()

    def allow_steps(self, count: int) -> None:
        """Run so many further callbacks at most."""
        self._max_steps = self.steps + count

    # --- callbacks ---

    def call_soon(  # type: ignore[override]  # the types are those of asyncio
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._post(self._process_of(context), handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no other threads

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        timer = when, next(self._numbers), self._process_of(context), handle
        heapq.heappush(self._timers, timer)
        return handle

    def _process_of(self, context: Context | None) -> Process:
        if context is None:
            return current_process.get(self.main)
        return context.get(current_process, self.main)

    def _post(self, process: Process, handle: asyncio.Handle) -> None:
        if not process.ready and process.state is ProcessState.RUNNING:
            self._runnable.append(process)
        process.ready.append(handle)

    def _run_once(self) -> None:
        """Run one callback. `run_forever` of asyncio calls this until the loop is stopped."""
        runnable = self._runnable
        if not runnable:
            self._jump()
            return
        count = len(runnable)
        index = int(self._random.random() * count) if count > 1 else 0
        process = runnable[index]
        handle = process.ready.popleft()
        if not process.ready:
            runnable[index] = runnable[-1]
            del runnable[-1]
        if not handle.cancelled():
            self.steps += 1
            if self.steps > self._max_steps:
                raise SimulationStuckError(
                    f"the scenario did not end within {self._max_steps} steps"
                )
            handle._run()

    def _jump(self) -> None:
        """Move on to the next timer, and make all due timers ready."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise SimulationStuckError(
                "nothing is left to happen: the scenario waits for something that no process does"
            )
        self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            _, _, process, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._post(process, handle)

    def _new_task(
        self, _: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> SimulatedTask:
        task = SimulatedTask(coroutine, next(self._numbers), loop=self, **options)
        self.tasks[task] = None
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    # --- what a loop takes from the machine ---

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Any], *args: Any
    ) -> Any:
        """Call the function on the loop a little later; the executor is not used."""
        del executor
        future = self.create_future()
        delay_s = self._random.random() * self._process_of(None).max_work_s
        self.call_later(delay_s, _work, future, function, args)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[tuple[Any, ...]]:
        return self.network.resolve(host, port)

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        if options.get("ssl"):
            raise NotImplementedError("the simulated network has no TLS")
        return await self.network.connect(protocol_factory, host, port)

    def add_reader(  # type: ignore[override]
        self, listening: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        """Call back when the simulated listening socket has a connection to accept."""
        listening.set_reader(lambda: self.call_soon(callback, *args))

    def remove_reader(self, listening: Any) -> bool:
        return bool(listening.set_reader(None))

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], accepted: Any, **_: Any
    ) -> tuple[Any, Any]:
        protocol = protocol_factory()
        return accepted.attach(protocol), protocol


def _work(future: asyncio.Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
