"""The event loop of a program that has none: one for each process, on a daemon thread.

An interrupt (KeyboardInterrupt) may hit a caller between any two instructions. One inside
`Condition.__enter__` or `__exit__` leaves the lock locked, and the loop would then wait for it
forever. So a caller's thread takes no lock that the loop takes too: not that of a
`concurrent.futures.Future` either. It waits on a `SimpleQueue`, which is written in C: no interrupt
leaves its lock locked.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Generic, TypeVar

from kohort.client.concurrency.cancellation import to_its_end
from kohort.errors import KohortError

T = TypeVar("T")


class _Work(Generic[T]):
    """Work on the loop, for which one thread waits."""

    __slots__ = ("_ended", "_loop", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    # In the thread that waits

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel the work at its present or next wait, also if `start` was interrupted."""
        self._loop.call_soon_threadsafe(self._cancel)

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    def wait(self) -> None:
        """Wait until the work has ended."""
        while not self.is_done:
            self._ended.get()

    def result(self) -> T:
        """Wait for the result. Raises the error of the work, and CancelledError."""
        try:
            self.wait()
            assert self._task is not None
            if self._task.cancelled():
                raise CancelledError
            return self._task.result()
        finally:
            del self  # it refers to the error, and the error to this frame

    def exception(self) -> BaseException | None:
        """The error of work that has ended, if any."""
        assert self._task is not None
        return CancelledError() if self._task.cancelled() else self._task.exception()

    # On the loop

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._work)
            self._task.add_done_callback(lambda _: self._ended.put(None))

    def _cancel(self) -> None:
        self._begin()
        assert self._task is not None
        self._loop.call_soon(self._task.cancel)  # once it has begun


class BackgroundLoop:
    """A loop that runs until its process ends. It does not survive a fork, as threads do not."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="kohort", daemon=True)
        self._thread.start()

    @property
    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()

    def validate_process(self) -> None:
        """Raises KohortError in a process that was forked from the loop's."""
        if not self.is_of_this_process:
            raise KohortError(
                "this client was opened before the process was forked: open one in each process"
            )

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run `work` on the loop without waiting for it. Raises as `validate_process`."""
        try:
            self.validate_process()
        except KohortError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; an interrupt of the caller cancels it.

        Raises the errors of `work`, and KohortError on the loop's own thread or after a fork.
        """
        running = self._prepared(work)
        try:
            running.start()
            return running.result()
        except BaseException:
            if not running.is_done:
                running.cancel()
            raise
        finally:
            del running  # it refers to the error, and the error to this frame

    def run_to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, but an interrupt is raised when `work` has ended, and its outcome is known.

        `work` is cancelled at its present or next wait, and decides when it ends. The error with
        which it ended is the cause of the interrupt. A second interrupt is raised at once.
        """
        running = self._prepared(work)
        try:
            running.start()
            return running.result()
        except BaseException as error:
            if not running.is_done:
                running.cancel()
                running.wait()
            failure = running.exception()
            try:
                if failure is error or isinstance(failure, CancelledError):
                    raise
                raise error from failure
            finally:
                del failure
        finally:
            del running  # it refers to the error, and the error to this frame

    def run_uncancelled(self, work: Coroutine[Any, Any, None]) -> None:
        """As `run_to_its_end`, for work that an interrupt does not cancel."""

        async def uncancelled() -> None:
            await to_its_end(self.loop.create_task(work))

        self.run_to_its_end(uncancelled())

    def _prepared(self, work: Coroutine[Any, Any, T]) -> _Work[T]:
        """Raises KohortError on the loop's own thread, and as `validate_process`."""
        try:
            if threading.current_thread() is self._thread:
                raise KohortError(
                    "a callback on the client's own thread cannot wait for the client"
                )
            self.validate_process()
        except KohortError:
            work.close()
            raise
        return _Work(self.loop, work)

    def stop(self) -> None:
        """End the loop's thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def wait(self, result: Awaitable[T]) -> T:
        """Wait on the loop while the caller's thread is blocked. The coroutine never suspends."""

        async def waiting() -> T:
            return await result

        return self.run(waiting())


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in this thread, without a loop: it may wait by `BackgroundLoop.wait` alone."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise KohortError("work that is to run without an event loop waited for something else")


_loops: Final[dict[int, BackgroundLoop]] = {}
"""Loop of each process id. No lock: `setdefault` is atomic, and a fork could copy a held lock."""


def background_loop() -> BackgroundLoop:
    """The loop of this process, which is started if it does not run yet."""
    pid = os.getpid()
    loop = _loops.get(pid)
    if loop is None:
        started = BackgroundLoop()
        loop = _loops.setdefault(pid, started)
        if loop is not started:  # another thread was faster
            started.stop()
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the loop of this process, and wait for its result."""
    return background_loop().run(work)
