"""Durability of appends, with group commit over many logs.

Each lane has one INSERT in flight. It contains all batches appended since the previous INSERT. A
batch is never committed before an earlier one of the same log, and an append waits for at most two
statements.
"""

import asyncio
import errno
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kohort.cluster import UnknownOutcomeError
from kohort.errors import KohortError, fresh
from kohort.log.durability import Syncable
from kohort.storage.postgres.blocking_process import blocker
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.fence import Fence
from kohort.storage.postgres.link import Link
from kohort.storage.postgres.logs.pages import Row
from kohort.storage.postgres.logs.writer import Writer, statements
from kohort.storage.postgres.loop_task import Completion, LoopTask

SLOW_STATEMENT_S: Final = 2.0
"""Seconds that a statement may take before its lane looks who keeps it waiting."""
MAX_UNWRITTEN_BYTES: Final = 64 << 20
"""Bytes of one lane that are yet to be written; further appends are refused."""


class Appending(Protocol):
    """Rows of a log that wait to be written."""

    def take_rows(self) -> list[Row]:
        """The rows that were appended since this was called last."""
        ...

    def written(self) -> None:
        """They are in the table."""
        ...


class Member(Syncable, Protocol):
    """A log of a lane."""

    def storage_failed(self, error: Exception) -> None:
        """Rows were not written; the log ends."""
        ...


class _Round:
    """The logs and rows of one pass."""

    __slots__ = ("commits", "completion", "failed")

    def __init__(self) -> None:
        self.commits: dict[LaneCommit, None] = {}
        self.failed: dict[LaneCommit, Exception] = {}
        self.completion = Completion()


class Lane:
    """The appends of some logs. Lives on the loop thread, and is started by the first append."""

    def __init__(
        self,
        number: int,
        link: Link,
        fence: Fence,
        *,
        report_health: Callable[[Exception | None], None] = lambda _: None,
        written: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`report_health` is called with the error while nothing can be written, then with None.

        `written` is called with the seconds that each statement took, with all its attempts.
        """
        self.number = number
        self.unwritten = 0
        """Bytes of rows that are not written yet."""
        self._link = link
        self._fence = fence
        self._writer = Writer(link, fence, number)
        self._report_health = report_health
        self._written = written
        self._next = _Round()
        self._current: _Round | None = None
        self._in_flight: list[Row] = []
        self._writing = LoopTask(self._run)
        self._blocker_task = LoopTask(self._report_blocker)

    def request(self, commit: "LaneCommit") -> None:
        """Write the log's rows soon."""
        if commit not in self._next.commits:
            self._next.commits[commit] = None
            if len(self._next.commits) == 1:
                self._writing.wake()

    async def wait(self, commit: "LaneCommit") -> None:
        """Return when all that a log has appended is written; raises why it was not."""
        for round_ in (self._current, self._next):
            if round_ is not None and commit in round_.commits:
                if round_ is self._next:
                    self._writing.wake()
                await round_.completion.wait()
                if commit in round_.failed:
                    raise fresh(round_.failed[commit])

    async def written(self, log: int) -> None:
        """Return when nothing of the log with this number is left to be written."""
        for round_ in (self._current, self._next):
            if round_ is not None and any(commit.number == log for commit in round_.commits):
                await round_.completion.wait()

    def is_settled(self, commit: "LaneCommit") -> bool:
        """True if all rows of a log are written."""
        return all(
            round_ is None or commit not in round_.commits for round_ in (self._current, self._next)
        )

    async def _run(self) -> None:
        try:
            while True:
                await self._writing.until(lambda: self._next.commits)
                self._current, self._next = self._next, _Round()
                await self._write(self._current)
                self._current = None
        finally:
            self._link.drop()

    async def _write(self, current: _Round) -> None:
        for commit in current.commits:
            commit.log.begin_sync()
            self._in_flight += commit.rows.take_rows()
        while self._in_flight:
            some = next(statements(self._in_flight))
            began = time.perf_counter()
            blocker_timer = asyncio.get_running_loop().call_later(
                SLOW_STATEMENT_S, self._blocker_task.wake
            )
            try:
                await self._writer.write(some, on_retry=self._report_health)
            except (OSError, KohortError) as error:
                self._refused(current, some, error)
            else:
                self._written(time.perf_counter() - began)
                for row in some:
                    row.store.durable = row.end
                self._take_off(len(some))
                self._report_health(None)
            finally:
                blocker_timer.cancel()
        for commit in current.commits:
            if commit in current.failed:
                self._end(commit, current.failed[commit])
            else:
                commit.rows.written()
                commit.log.synced()
        current.completion.complete()

    async def _report_blocker(self) -> None:
        """Report the process that blocks the statement in flight."""
        link = self._link.another()
        try:
            with outcome():
                process = await blocker(await link.get())
            if process is not None and self._in_flight:
                self._report_health(UnknownOutcomeError(process))
        except (UnknownOutcomeError, DatabaseError, KohortError):
            pass  # the statement meets the same
        finally:
            await link.close()

    def _refused(self, current: _Round, rows: Sequence[Row], error: Exception) -> None:
        """Write nothing more of the logs of these rows: there would be a hole."""
        logs = {row.log for row in rows}
        for commit in current.commits:
            if commit.number in logs:
                current.failed[commit] = error
        self._in_flight.sort(key=lambda row: row.log not in logs)
        self._take_off(sum(row.log in logs for row in self._in_flight))

    def _end(self, commit: "LaneCommit", error: Exception) -> None:
        """End a log, with what it has appended since: behind what was refused is a hole."""
        self.unwritten -= sum(len(row.data) for row in commit.rows.take_rows())
        if commit in self._next.commits:
            del self._next.commits[commit]
            self._next.failed[commit] = error
        commit.log.storage_failed(error)

    def _take_off(self, count: int) -> None:
        self.unwritten -= sum(len(row.data) for row in self._in_flight[:count])
        del self._in_flight[:count]

    # The end

    def abandon(self, error: Exception) -> None:
        """Fail all unwritten rows with `error`, after `stop`."""
        for round_ in (self._current, self._next):
            if round_ is not None:
                round_.failed.update(dict.fromkeys(round_.commits, error))
                round_.completion.complete()

    def stop(self) -> None:
        """Write nothing more on the event loop."""
        self._writing.stop()
        self._blocker_task.stop()
        self._link.drop()


class LaneCommit:
    """The part of one log in its lane."""

    __slots__ = ("_lane", "log", "number", "rows")

    def __init__(self, lane: Lane, log: Member, number: int, rows: Appending) -> None:
        self._lane = lane
        self.log = log
        self.number = number
        self.rows = rows

    @property
    def failure(self) -> OSError | None:
        """Why nothing can be appended now; None if it can."""
        if self._lane.unwritten > MAX_UNWRITTEN_BYTES:
            return OSError(errno.ENOBUFS, "too much is yet to be written to PostgreSQL")
        return None

    @property
    def is_settled(self) -> bool:
        """True if all appended rows are written."""
        return self._lane.is_settled(self)

    def request(self) -> None:
        """Write what was appended, soon, without waiting for it."""
        self._lane.request(self)

    async def wait(self) -> None:
        """Return when all that was appended is written.

        Raises OSError or KohortError if it was not, and then the log has ended.
        """
        await self._lane.wait(self)

    def close(self) -> None:
        pass

    async def ended(self) -> bool:
        """No-op: the rows that are yet to be written are those of the directory."""
        return True

    def running_sync(self) -> None:
        """None: PostgreSQL syncs what a statement writes."""
