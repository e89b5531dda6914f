"""Processes that Spark starts, and a driver of its own, to be killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from processes import PARENT, fields, is_alive
from spark.streams import wait_for

SOURCE = b"python_streaming_source_runner"
EXECUTOR = b"CoarseGrainedExecutorBackend"
PROGRAM = Path(__file__).with_name("driver.py")


def source_processes(jvm: int) -> set[int]:
    """The processes beside the driver in which streaming sources live: those of one JVM."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            is_source = SOURCE in (each / "cmdline").read_bytes()
            if is_source and int(fields(int(each.name))[PARENT]) == jvm:
                found.add(int(each.name))
        except OSError:
            continue  # it has just ended
    return found


def descendants(process: int) -> list[int]:
    """The process, and all that it and its children have started and that have not ended."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parents[int(each.name)] = int(fields(int(each.name))[PARENT])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def executor(process: int) -> int:
    """The JVM of the executor in which a task's process is."""
    while EXECUTOR not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(fields(process)[PARENT])
        assert process > 1, "no executor"
    return process


class Driver:
    """`driver.py`: Python, its JVM, and beside it the process in which the source lives; all gone
    at the end.
    """

    def __init__(
        self,
        address: str,
        directory: Path,
        options: dict[str, Any],
        *,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`log`: what it says goes there; `environment`: besides that of this process."""
        command = [sys.executable, str(PROGRAM), address, str(directory), json.dumps(options)]
        variables = os.environ | {"PYTHONPATH": str(PROGRAM.parents[1])} | (environment or {})
        with ExitStack() as files:
            said = None if log is None else files.enter_context(log.open("ab"))
            self._popen = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, env=variables
            )
        self.pids: dict[str, int] = {"driver": self._popen.pid}
        """Of `driver`, `jvm` and `source`, once it has joined."""

    def await_started(self) -> None:
        """Until its source runs."""
        assert self._popen.stdout is not None
        self.pids["jvm"] = json.loads(self._popen.stdout.readline())["jvm"]
        wait_for(
            lambda: source_processes(self.pids["jvm"]) or "jvm" not in self.alive(),
            "a source process",
        )
        (self.pids["source"],) = source_processes(self.pids["jvm"])

    def kill(self, how: signal.Signals, *names: str) -> None:
        for name in names:
            os.kill(self.pids[name], how)

    def kill_all(self, how: signal.Signals) -> None:
        """Also the workers."""
        for process in descendants(self.pids["driver"]):
            with suppress(ProcessLookupError):
                os.kill(process, how)

    def alive(self) -> set[str]:
        """Which of its processes still run."""
        return {name for name, process in self.pids.items() if is_alive(process)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGKILL, *self.alive())
        self._popen.wait(10)
