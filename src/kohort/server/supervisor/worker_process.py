"""One worker: a process that is started again whenever it ends."""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

from kohort.server.logging import fields
from kohort.server.supervisor.worker_messages import (
    ALIVE,
    ALIVE_INTERVAL_S,
    END_UNSTARTED,
    ENDING,
    MAX_LINE,
    RELOAD,
    WorkerReport,
    WorkerSetup,
)

logger = logging.getLogger("kohort.serve")

COMMAND: Final = (sys.executable, "-P", "-m", "kohort.cli.worker")
CANNOT_START: Final = 1
"""In place of the exit code of a process that was not started."""
FIRST_DELAY_S: Final = 0.25
MAX_DELAY_S: Final = 5.0
SERVED_WELL_S: Final = 30.0
"""A worker that served for so long is started again at once when it ends."""
MAX_MISSED_SIGNS: Final = 30
"""Consecutive checks without a heartbeat after which a worker counts as hung.

The parent checks every `ALIVE_INTERVAL_S`, and counts its checks, not the time: on a machine that
is busy for seconds, or was suspended, the parent does not run either.
"""
GROUP_SIGNAL_S: Final = 1.0
"""Wait for the parent's own SIGTERM or SIGINT, if the signal of a process group ended a worker."""
_OF_A_GROUP: Final = (signal.SIGTERM, signal.SIGINT)


class WorkerProcess:
    """Runs from `run` to `stop`."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.index = setup.worker.index
        self.node_id: int = setup.config["node.id"]
        self.started: asyncio.Future[WorkerReport] = asyncio.get_running_loop().create_future()
        """The report of the first start."""
        self.restarts = 0
        self.is_serving = False
        self._line = setup.encode()
        self._report: WorkerReport | None = None
        """Report of the current process."""
        self._served_since: float | None = None
        self._signs = 0
        """Number of lines from the current process."""
        self._is_ending = False
        """Whether it closes, and sends no heartbeat any more."""
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._parent: asyncio.StreamWriter | None = None

    def __repr__(self) -> str:
        pid = None if self._process is None else self._process.pid
        return f"<WorkerProcess {self.node_id} pid={pid}>"

    async def run(self) -> int:
        """Keep the process running until `stop`; returns the exit code of the last one.

        One that cannot serve at its first start is not started again.
        """
        delay_s = 0.0
        if self._stopping.is_set():
            return 0
        while True:
            report, code, served_s = await self._run_once()
            if report is None and not self.started.done():
                ended = f"worker {self.index} ended before it served, with code {code}"
                self.started.set_result(WorkerReport(refused=ended))
            if self._stopping.is_set() or self._was_refused():
                return code
            delay_s = 0.0 if served_s > SERVED_WELL_S else delay_s
            why = {} if report is None or report.refused is None else {"why": report.refused}
            logger.log(
                logging.ERROR if code else logging.WARNING,  # 0: it was asked to end
                "worker exited, restarting it",
                extra=fields(node=self.node_id, code=code, in_s=delay_s, **why),
            )
            if await self._stops_within(delay_s):
                return code
            delay_s = min(max(2 * delay_s, FIRST_DELAY_S), MAX_DELAY_S)
            self.restarts += 1

    async def _stops_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    def _was_refused(self) -> bool:
        return self.started.done() and self.started.result().refused is not None

    async def _run_once(self) -> tuple[WorkerReport | None, int, float]:
        """Start the process and wait for its end: its report, exit code and time of service."""
        try:
            self._process, reader, self._parent = await _started()
        except OSError as error:
            logger.error("cannot start a worker", extra=fields(node=self.node_id, why=error))
            return None, CANNOT_START, 0.0
        self._report = self._served_since = None
        self._signs, self._is_ending = 0, False
        watching = asyncio.create_task(self._kill_when_hung(self._process))
        try:
            self._parent.write(self._line)
            if self._stopping.is_set():
                self._ask_to_end()
            with suppress(OSError):
                await self._listen(reader)
            code = await self._process.wait()
        finally:
            watching.cancel()
            self.is_serving = False
            self._parent.close()
            self._parent = None
        if self._served_since is None:
            if -code in _OF_A_GROUP:
                await self._stops_within(GROUP_SIGNAL_S)
            # Ended by a signal before it served: nothing is lost.
            return self._report, max(code, 0) if self._stopping.is_set() else code, 0.0
        return self._report, code, asyncio.get_running_loop().time() - self._served_since

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Read the lines of the process until its end. Raises OSError."""
        while (line := await reader.readline()).endswith(b"\n"):
            self._signs += 1
            if line == ENDING:
                self._is_ending = True
            elif line != ALIVE:
                self._report = WorkerReport.decode(line)
                self._served_since = asyncio.get_running_loop().time()
                self._serves(self._report)

    async def _kill_when_hung(self, process: asyncio.subprocess.Process) -> None:
        """Kill the process if its event loop no longer runs.

        Before its first line it cannot miss a heartbeat: it imports its modules.
        """
        missed = counted = 0
        while missed < MAX_MISSED_SIGNS:
            await asyncio.sleep(ALIVE_INTERVAL_S)
            has_shown_life = self._signs > counted or not self._signs or self._is_ending
            missed, counted = 0 if has_shown_life else missed + 1, self._signs
        logger.error(
            "worker hangs, killing it",
            extra=fields(node=self.node_id, silent_s=missed * ALIVE_INTERVAL_S),
        )
        with suppress(ProcessLookupError):
            process.kill()

    def _serves(self, report: WorkerReport) -> None:
        self.is_serving = report.refused is None
        if not self.started.done():
            self.started.set_result(report)
        elif self.is_serving:
            logger.info("worker is serving again", extra=fields(node=self.node_id))

    def reload(self) -> None:
        """Have it read its files again."""
        if self._parent is not None and self.is_serving:
            self._parent.write(RELOAD)

    def stop(self) -> None:
        """Have it end cleanly, and not be started again. Idempotent."""
        self._stopping.set()
        self._ask_to_end()

    def _ask_to_end(self) -> None:
        if self._parent is None or self._process is None:
            return
        if self._parent.can_write_eof():
            self._parent.write_eof()
        if self._process.returncode is None and not self.is_serving:
            # Not by `Popen`, which would take the exit code from asyncio.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, END_UNSTARTED)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


async def _started() -> tuple[
    asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter
]:
    """A new process, and the stream to its standard input, which goes both ways. Raises OSError."""
    own_end, worker_end = socket.socketpair()
    with worker_end:
        reader, writer = await asyncio.open_unix_connection(sock=own_end, limit=MAX_LINE)
        # Inherited: a Ctrl-C while Python itself starts would end it with a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=worker_end.fileno(),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except OSError:
            writer.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return process, reader, writer
