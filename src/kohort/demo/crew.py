"""The members: processes that are started, listened to, asked to leave, or killed."""

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kohort.demo.errors import DemoError
from kohort.demo.processes import die_with_parent
from kohort.demo.tally import Report

LEAVE_SECONDS = 10.0


class Crew:
    """A context manager: no member outlives it."""

    def __init__(self, address: str, group: str, topic: str, seconds: float, log: Path) -> None:
        self._options = [address, group, topic]
        self._pace = [str(time.monotonic()), str(seconds)]
        self._log = log
        self._heard: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: dict[str, threading.Thread] = {}
        self.killed: dict[str, float] = {}
        """When each killed member was killed: seconds since the Unix epoch."""
        self.reports: list[Report] = []
        """All that the members have said, up to the last `listen`."""
        self._leaving = False

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "kohort.demo.member", *self._options, name, *self._pace]
        with self._log.open("ab") as log:
            member = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),  # without its server it could only wait
            )
        self._members[name] = member
        self._readers[name] = threading.Thread(target=self._read, args=(name, member), daemon=True)
        self._readers[name].start()

    def _read(self, name: str, member: subprocess.Popen[bytes]) -> None:
        assert member.stdout is not None
        for line in member.stdout:
            if line.endswith(b"\n"):  # a killed member may leave half a line
                self._heard.put(Report.told(name, json.loads(line)))

    def listen(self) -> Sequence[Report]:
        """All reports so far; DemoError if a member ended although nobody asked it to."""
        while not self._heard.empty():
            self.reports.append(self._heard.get())
        for name, member in self._members.items():
            if not self._leaving and name not in self.killed and member.poll() is not None:
                raise DemoError(f"{name} ended by itself with code {member.returncode}: see {self._log}")
        return self.reports

    @property
    def names(self) -> Sequence[str]:
        """Of all members ever started, in the order of their start."""
        return tuple(self._members)

    def kill(self, name: str) -> None:
        """`kill -9`: it cannot leave the group, or commit."""
        self._members[name].kill()
        self.killed[name] = time.time()
        self._members[name].wait()

    def leave(self) -> None:
        """Ask all to leave the group in good order; back when they have, and all they said is in `reports`."""
        self._leaving = True
        for member in self._members.values():
            if member.poll() is None:
                member.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + LEAVE_SECONDS
        for name, member in self._members.items():
            try:
                member.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise DemoError(f"{name} did not leave within {LEAVE_SECONDS:g} s: see {self._log}") from None
            self._readers[name].join(5)
        self.listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self._members.values():
            if member.poll() is None:
                member.kill()
                member.wait()
