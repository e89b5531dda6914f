"""The event loop of a program that has none: one for each process, on a daemon thread."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

from kohort.client.concurrency.cancellation import to_its_end
from kohort.errors import KohortError

T = TypeVar("T")


class BackgroundLoop:
    """A loop that runs until its process ends. Threads do not survive a fork, nor does it."""

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
        """Run `work` on the loop, beside the caller. Raises as `validate_process`."""
        try:
            self.validate_process()
        except KohortError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; a caller that is interrupted cancels it.

        Raises what `work` raises, and KohortError on the loop's own thread or after a fork.
        """
        self._validate_thread(work)
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run_to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, but an interrupt is raised when `work` has ended, and its outcome is known.

        `work` is cancelled where it waits first, and decides when it ends. The error with which it
        ended is the cause of the interrupt. A second interrupt is raised at once.
        """
        self._validate_thread(work)
        try:
            self.validate_process()
        except KohortError:
            work.close()
            raise
        tasks: list[asyncio.Task[T]] = []
        result: Future[T] = Future()

        def start() -> None:
            if not tasks:
                tasks.append(self.loop.create_task(work))
                tasks[0].add_done_callback(lambda task: _copy(task, result))

        def cancel() -> None:
            start()  # interrupted before it was begun
            self.loop.call_soon(tasks[0].cancel)  # once it has begun, so that it can decide

        try:
            self.loop.call_soon_threadsafe(start)
            return result.result()
        except BaseException as error:
            if not result.done():
                self.loop.call_soon_threadsafe(cancel)
                wait([result])
            failure = result.exception()
            if failure is error or isinstance(failure, CancelledError):
                raise
            raise error from failure

    def run_uncancelled(self, work: Coroutine[Any, Any, None]) -> None:
        """As `run_to_its_end`, for work that an interrupt does not cancel."""

        async def uncancelled() -> None:
            await to_its_end(self.loop.create_task(work))

        self.run_to_its_end(uncancelled())

    def _validate_thread(self, work: Coroutine[Any, Any, Any]) -> None:
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError("a callback on the client's own thread cannot wait for the client")

    async def wait(self, result: Awaitable[T]) -> T:
        """Wait on the loop, while the caller's thread is blocked: this suspends nothing."""

        async def waiting() -> T:
            return await result

        return self.run(waiting())


def _copy(task: asyncio.Task[T], result: "Future[T]") -> None:
    if task.cancelled():
        result.set_exception(CancelledError())
    elif (error := task.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in this thread, without a loop: it may wait by `BackgroundLoop.wait` alone."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise KohortError("work that is to run without an event loop waited for something else")


_lock = threading.Lock()
_of_this_process: BackgroundLoop | None = None


def background_loop() -> BackgroundLoop:
    """The loop of this process, which is started if it does not run yet."""
    global _of_this_process
    with _lock:
        if _of_this_process is None or not _of_this_process.is_of_this_process:
            _of_this_process = BackgroundLoop()
        return _of_this_process


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the loop of this process, and wait for its result."""
    return background_loop().run(work)
