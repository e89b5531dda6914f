"""A background task of an event loop, started by its first work."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any


class LoopTask:
    """A task that runs whenever it is woken, until it is stopped.

    It may be woken without an event loop: then it starts when it is woken in one.
    """

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def wake(self) -> None:
        """Wake the task; start it if it does not run."""
        if self._task is None or self._task.done():
            if self._stopped:
                return
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._wake = asyncio.Event()
            self._task = loop.create_task(self._run())
        assert self._wake is not None
        self._wake.set()

    async def until(self, is_due: Callable[[], object]) -> None:
        """Return when there is something to do. To be called by the task."""
        assert self._wake is not None
        while not is_due():
            self._wake.clear()
            await self._wake.wait()

    def stop(self) -> None:
        """Cancel the task, and begin no other."""
        self._stopped = True
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # its event loop has ended
                self._task.cancel()


class Completion:
    """The end of some work, which others wait for."""

    __slots__ = ("_waiting", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Return when the work is over."""
        if not self.is_over:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiting)

    def complete(self) -> None:
        """Mark the work as over, and resume all that wait for it."""
        self.is_over = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
