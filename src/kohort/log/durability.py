"""Durability of appends under the policy `fsync`, with group commit.

One fsync runs at a time for each log, in another thread. Callers that arrive while it runs wait for
the next one, which covers every append before its start. So however many appends wait, each waits
for two fsyncs at most.

A failed fsync is not repeated: Linux may have discarded the pages and would report success the next
time. The log then refuses appends until it is opened again and its files were checked.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor


def sync_all(paths: Iterable[str]) -> None:
    """fsync files and directories, ignoring deleted ones.

    Raises the first OSError, after all were synced. The files are opened here, in the thread that
    syncs, so that few descriptors are open however many logs wait for the disk. Linux reports an
    unreported write error to the next fsync of any descriptor.
    """
    failure: OSError | None = None
    for path in paths:
        try:
            _sync(path)
        except FileNotFoundError:
            continue  # removed, or compacted into a file that was synced
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class GroupCommit:
    """The fsyncs of one log. Lives on the loop thread."""

    __slots__ = ("_collect", "_executor", "_next", "_on_failure", "_running", "failure")

    def __init__(
        self,
        collect: Callable[[], list[str]],
        executor: Executor,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """`collect` gives the paths of all that was written since it was last called."""
        self._collect = collect
        self._executor = executor
        self._on_failure = on_failure
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self.failure: OSError | None = None
        """The reason for which no append can become durable any more."""

    async def wait(self) -> None:
        """Return when all that was written before this call is durable. Raises OSError."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._round(self._running))
            self._next.add_done_callback(_look_at)  # possibly no caller waits for it
        await asyncio.shield(self._next)

    async def _round(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            with contextlib.suppress(OSError):
                await asyncio.shield(before)
        self._running, self._next = self._next, None
        if self.failure is None:
            try:
                paths = self._collect()
                if paths:
                    await asyncio.get_running_loop().run_in_executor(
                        self._executor, sync_all, paths
                    )
            except OSError as error:
                self.failure = error
                self._on_failure()
        if self.failure is not None:
            raise OSError(
                self.failure.errno, ("what was written could not be made durable")
            ) from self.failure


def _look_at(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
