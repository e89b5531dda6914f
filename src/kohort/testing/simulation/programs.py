"""Programs of a scenario: each is a process of its own, which can crash and is started again."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, Final

from kohort.errors import KohortError
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.process import Process
from kohort.testing.simulation.timeline import Timeline

RESTART_S: Final = 1.0
"""Time until a program that ended with an error is started again."""

Main = Callable[..., Coroutine[Any, Any, object]]


class Program:
    """One program, over all of its processes."""

    def __init__(
        self,
        name: str,
        main: Main,
        args: tuple[object, ...],
        loop: SimulatedLoop,
        network: Network,
        timeline: Timeline,
        on_error: Callable[["Program", BaseException], None],
        *,
        restarts: bool,
    ) -> None:
        """`on_error` is called with an error that ends it for good."""
        self.name = name
        self.killed: list[tuple[Process, asyncio.Task[object]]] = []
        """Killed processes, with the task of `main` in each."""
        self.process: Process
        self.has_finished = asyncio.Event()
        """Set when `main` has returned, or ended for good with an error."""
        self._main = main
        self._args = args
        self._loop = loop
        self._network = network
        self._timeline = timeline
        self._on_error = on_error
        self._restarts = restarts
        self._task: asyncio.Task[object] | None = None
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"<Program {self.name}>"

    @property
    def is_running(self) -> bool:
        """Whether it has a process now, or has been stopped."""
        return self._task is not None or self._is_stopping

    def start(self) -> None:
        """Start a process, unless there is one or the program has finished."""
        if self._task is not None or self.has_finished.is_set() or self._is_stopping:
            return
        self.process = Process(self.name, self.name)
        self._task = self._loop.create_task(
            self._main(*self._args), context=self.process.context, name=self.name
        )
        self._task.add_done_callback(self._done)
        self._timeline.add(f"{self.name}: started")

    def kill(self) -> None:
        """End the process; none of its code runs any more."""
        if self._task is not None:
            self.killed.append((self.process, self._task))
            self._task = None
            self._loop.end(self.process)
            self._network.process_ended(self.process)

    async def wait(self) -> None:
        """Return when `main` has returned, in whichever of its processes."""
        await self.has_finished.wait()

    async def stop(self, seconds: float) -> bool:
        """Cancel the program as at the end of `asyncio.run`; False if it takes longer."""
        self._is_stopping = True
        task = self._task
        if task is None:
            return True
        self._loop.call_soon(task.cancel, context=self.process.context)
        await asyncio.wait([task], timeout=seconds)
        return task.done()

    def _done(self, task: "asyncio.Task[object]") -> None:
        if task is not self._task:
            return
        self._task = None
        error = None if task.cancelled() else task.exception()
        self._network.process_ended(self.process)
        if error is None:
            if not task.cancelled():
                self._timeline.add(f"{self.name}: finished")
                self.has_finished.set()
        elif self._is_stopping and _is_expected(error):
            self._timeline.add(f"{self.name}: ended with {_summary(error)}")
        elif self._restarts and _is_expected(error):
            self._timeline.add(f"{self.name}: ended with {_summary(error)}; starts again")
            self._loop.call_later(RESTART_S, self.start, context=Context())
        else:
            self._on_error(self, error)
            self.has_finished.set()


def _is_expected(error: BaseException) -> bool:
    """Whether a supervisor would start the program again: Kohort raised it."""
    return all(isinstance(each, KohortError) for each in _leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _summary(error: BaseException) -> str:
    return "; ".join(f"{type(each).__name__}: {each}" for each in _leaves(error))
