"""State that logs store beside batches: one short transaction each, in the order of the log.

An operation begins when the appends of its log that were made before it are written. It may be done
twice, if its outcome was lost, so it must be one that does the same again. The logs have their turn
one after the other, but those for whose operations somebody waits come first.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from kohort.cluster import FencedError, UnknownOutcomeError
from kohort.errors import KohortError, fresh
from kohort.storage.postgres.errors import outcome
from kohort.storage.postgres.fence import OPERATIONS, Fence
from kohort.storage.postgres.link import Connection, Link, retry_delays
from kohort.storage.postgres.loop_task import Completion, LoopTask

logger = logging.getLogger("kohort.log")

Work: TypeAlias = Callable[[Connection], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Operation:
    """One transaction."""

    log: int
    activity: str
    """For log lines."""
    work: Work
    appended: Callable[[], Awaitable[None]]
    """Returns when the log's appends are written, raises if they will not be."""
    refused: Callable[[Exception], None] = lambda _: None
    """Called with the error if it will never be committed."""
    committed: Callable[[], None] = lambda: None
    """Called once it is."""
    is_awaited: bool = False
    """True if a task waits for it."""
    failure: Exception | None = None
    _completion: Completion = field(default_factory=Completion)

    async def done(self) -> None:
        """Return when it is committed; raises OSError or KohortError if it never will be."""
        await self._completion.wait()
        if self.failure is not None:
            raise fresh(self.failure)

    def end(self, failure: Exception | None) -> None:
        self.failure = failure
        if failure is None:
            self.committed()
        else:
            self.refused(failure)
        self._completion.complete()


class Operations:
    """The operations of a node. Lives on the loop thread, and is started by the first one."""

    def __init__(self, link: Link, fence: Fence) -> None:
        self._link = link
        self._fence = fence
        self._by_log: dict[int, deque[Operation]] = {}
        """Pending operations of each log, in order."""
        self._awaited: dict[int, None] = {}
        """The logs among them with an operation that is awaited."""
        self._unknown = False
        self._working = LoopTask(self._run)

    def add(self, operation: Operation) -> Operation:
        """Do it soon. Without an event loop, the next one does it, or the end."""
        self._by_log.setdefault(operation.log, deque()).append(operation)
        self._working.wake()
        return operation

    def is_settled(self, log: int) -> bool:
        """True if a log has no pending operation."""
        return log not in self._by_log

    async def settled(self, log: int) -> None:
        """Return when all operations of a log are done. Raises OSError, KohortError."""
        while log in self._by_log:
            await self.done(self._by_log[log][-1])
            await asyncio.sleep(0)  # it is taken off then

    async def done(self, operation: Operation) -> None:
        """As `Operation.done`; the operation goes before those without a waiter."""
        if operation in self._by_log.get(operation.log, ()):
            operation.is_awaited = True
            self._awaited[operation.log] = None
            self._working.wake()
        await operation.done()

    async def _run(self) -> None:
        try:
            while True:
                await self._working.until(lambda: self._by_log)
                operation = self._by_log[next(iter(self._awaited or self._by_log))][0]
                with contextlib.suppress(OSError, KohortError):  # its log is gone then
                    await operation.appended()
                operation.end(await self._do(operation))
                self._over(operation)
        finally:
            self._link.drop()

    def _over(self, operation: Operation) -> None:
        left = self._by_log.pop(operation.log, None)
        if left is None:
            return  # all were abandoned
        left.popleft()
        self._awaited.pop(operation.log, None)
        # Behind the other logs.
        if left:
            self._by_log[operation.log] = left
        if any(other.is_awaited for other in left):
            self._awaited[operation.log] = None

    async def _do(self, operation: Operation) -> Exception | None:
        """Why it is not committed; None if it is."""
        delays = iter(retry_delays())
        delay = next(delays)
        while True:
            try:
                with outcome():
                    await self._try(operation, await self._link.get())
            except UnknownOutcomeError:
                self._unknown = True
                self._link.drop()
            except (OSError, KohortError) as error:
                if not isinstance(error, FencedError):
                    logger.error("%s failed: %s", operation.activity, error)
                return error.with_traceback(None)  # which refers to what was to be written
            else:
                return None
            await asyncio.sleep(delay)
            delay = next(delays, delay)

    async def _try(self, operation: Operation, connection: Connection) -> None:
        if self._unknown:
            await self._fence.rotate_session(connection, OPERATIONS)
            self._unknown = False
        async with connection.transaction():
            await self._fence.lock_session(connection, OPERATIONS)
            await operation.work(connection)

    # The end

    def abandon(self, error: Exception) -> None:
        """Fail all pending operations with `error`, after `stop`."""
        abandoned, self._by_log = self._by_log, {}
        self._awaited.clear()
        for left in abandoned.values():
            for operation in left:
                operation.end(error)

    def stop(self) -> None:
        """Do nothing more on the event loop."""
        self._working.stop()
        self._link.drop()
