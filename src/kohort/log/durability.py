"""Durability of appends under the policy `fsync`, with group commit.

One fsync runs at a time for each log, in another thread. Callers that arrive while it runs wait for
the next one, which covers every append before its start. So however many appends wait, each waits
for two fsyncs at most.

An fsync that failed says nothing of what is on the disk: Linux may have thrown the pages away, and
would report success the next time. So what was not durable by then is taken back and refused to its
producers, the log takes no appends, and the disk is tried again after a while: the last durable
bytes are written once more and synced. When that succeeds the log goes on.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Protocol

from kohort.errors import fresh
from kohort.protocol.batches import Buffer


def sync_all(paths: Iterable[str]) -> None:
    """fsync files and directories, ignoring deleted ones.

    Raises the first OSError, after all were synced. The files are opened here, in the thread that
    syncs, so that few descriptors are open however many logs wait for the disk. Linux reports an
    unreported write error to the next fsync of any descriptor.
    """
    failure: OSError | None = None
    for path in paths:
        try:
            sync_path(path)
        except FileNotFoundError:
            continue  # removed, or compacted into a file that was synced
        except OSError as error:
            failure = failure or error.with_traceback(None)
    if failure is not None:
        raise fresh(failure)


def write_whole(descriptor: int, content: Buffer) -> None:
    """Write all of `content`, also where one call takes only a part. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_path(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rewrite(path: str) -> None:
    """Write the bytes of a file once more and sync it; nothing happens if it is gone.

    Data that a failed fsync may have lost is still in memory. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        _rewrite_from(descriptor, 0)
    finally:
        os.close(descriptor)


def rewrite_end(path: str) -> None:
    """`rewrite` of the last page alone."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        _rewrite_from(descriptor, max(os.fstat(descriptor).st_size - 1, 0) // _PAGE * _PAGE)
    finally:
        os.close(descriptor)


def _rewrite_from(descriptor: int, position: int) -> None:
    while data := os.pread(descriptor, _COPY_CHUNK, position):
        position += os.pwrite(descriptor, data, position)
    os.fsync(descriptor)


_PAGE = 4096
_COPY_CHUNK = 1 << 20
RETRY_BACKOFF_S = 0.5
MAX_RETRY_BACKOFF_S = 30.0


class Retryable(Protocol):
    """A log whose last sync failed."""

    def sync_failed(self, error: OSError) -> None:
        """A sync failed: remove the records that are not durable.

        Called again if `retry_sync` fails.
        """
        ...

    def retry_sync(self) -> Callable[[], None]:
        """Write that shows whether the disk works again; called in a thread. Raises OSError."""
        ...


class Syncable(Retryable, Protocol):
    """A log that a `Commit` makes durable."""

    def begin_sync(self) -> Callable[[], None]:
        """Function that syncs everything written so far; it is called in another thread."""
        ...

    def synced(self) -> None:
        """The function of the last `begin_sync` has returned."""
        ...

    def sync_resumed(self) -> None:
        """The disk works again."""
        ...


class Commit(Protocol):
    """Makes durable what one log appends."""

    @property
    def failure(self) -> OSError | None:
        """Why nothing can be made durable now; None if it can."""
        ...

    def request(self) -> None:
        """Make durable what was written, soon, without waiting for it.

        Without an event loop, the next `wait` does.
        """
        ...

    async def wait(self) -> None:
        """Return when everything written before this call is durable.

        Raises OSError if it is not, and then it was taken back.
        """
        ...

    def close(self) -> None:
        """Try nothing more."""
        ...

    async def ended(self) -> bool:
        """Wait, after `close`, for the syncs under way; False if the last one failed."""
        ...

    def running_sync(self) -> Future[None] | None:
        """The fsync whose result the log has not handled yet; None if there is none."""
        ...


class GroupCommit:
    """The fsyncs of one log. Lives on the loop thread."""

    __slots__ = (
        "_executor", "_failures", "_is_closed", "_log", "_next", "_retrying", "_running", "_sync",
        "failure",
    )  # fmt: skip

    def __init__(self, log: Syncable, executor: Executor) -> None:
        self._log = log
        self._executor = executor
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._sync: Future[None] | None = None
        self._failures = 0
        self._is_closed = False
        self.failure: OSError | None = None
        """Why nothing can be made durable now; None if it can."""

    def request(self) -> None:
        """Make durable what was written, soon, without waiting for it.

        Without an event loop, the next `wait` does.
        """
        if self._next is None and self.failure is None:
            with contextlib.suppress(RuntimeError):
                self._schedule(asyncio.get_running_loop())

    async def wait(self) -> None:
        """Return when everything written before this call is durable.

        Raises OSError if it is not, and then it was taken back.
        """
        if self.failure is not None:
            raise _refused(self.failure)
        failures = self._failures
        if self._next is None:
            self._schedule(asyncio.get_running_loop())
        assert self._next is not None
        await asyncio.shield(self._next)
        if self._failures != failures:  # and the disk works again already
            raise OSError("what was written could not be made durable")

    def close(self) -> None:
        """Try the disk no more."""
        self._is_closed = True
        if self._retrying is not None:
            self._retrying.cancel()

    async def ended(self) -> bool:
        """Wait, after `close`, for the syncs under way; False if the last one failed."""
        while under_way := [
            task
            for task in (self._next, self._running, self._retrying)
            if task is not None and not task.done()
        ]:
            await asyncio.wait(under_way)
        return self.failure is None

    def running_sync(self) -> Future[None] | None:
        """The fsync whose result the log has not handled yet; None if there is none."""
        return self._sync

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = loop.create_task(self._round(self._running))
        self._next.add_done_callback(_look_at)  # nobody may be left to wait for it

    async def _round(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            with contextlib.suppress(OSError):
                await asyncio.shield(before)
        self._running, self._next = self._next, None
        if self.failure is not None:
            raise _refused(self.failure)
        try:
            self._sync = Future()
            sync = partial(_run, self._log.begin_sync(), self._sync)
            # It goes on if the loop ends and cancels this task.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, sync))
        except OSError as error:
            self._sync = None
            self._fail(error)
            raise _refused(error) from error
        self._sync = None
        self._log.synced()

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self._failures += 1
        self._log.sync_failed(error)
        if not self._is_closed:
            self._retrying = asyncio.get_running_loop().create_task(self._retry())

    async def _retry(self) -> None:
        await resumed(self._log, self._executor)
        self.failure = None
        self._log.sync_resumed()


async def resumed(log: Retryable, executor: Executor | None) -> None:
    """Return when the disk takes what `log` writes again; it is tried less and less often."""
    loop, delay = asyncio.get_running_loop(), RETRY_BACKOFF_S
    while True:
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_BACKOFF_S)
        try:
            await _to_its_end(loop.run_in_executor(executor, log.retry_sync()))
        except OSError as error:
            log.sync_failed(error)
        else:
            return


def _run(work: Callable[[], object], ended: Future[None]) -> None:
    """Do `work`, and complete `ended` for callers that wait without the event loop."""
    try:
        work()
    except BaseException as error:
        ended.set_exception(error)
        raise
    ended.set_result(None)


async def _to_its_end(work: asyncio.Future[None]) -> None:
    """Await `work` of a thread. A cancellation takes effect when the work has ended."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def _refused(error: OSError) -> OSError:
    refusal = OSError(error.errno, "what was written could not be made durable")
    refusal.__cause__ = error
    return refusal


def _look_at(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
