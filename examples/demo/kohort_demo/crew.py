"""The members: processes that are started, listened to, asked to leave, or killed."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from kohort.testing.child_processes import die_with_parent
from kohort_demo.errors import DemoError
from kohort_demo.tally import WorkReport
from kohort_demo.work import Job

LEAVE_SECONDS = 600.0
WAIT_SECONDS = 0.1


class Library(StrEnum):
    """What a member's program is written with."""

    KOHORT = "kohort"
    LIBRDKAFKA = "librdkafka"


SOURCES = str(Path(__file__).parents[1])
"""Where the programs of members are found."""
PROGRAMS = {
    Library.KOHORT: "kohort_demo.member",
    Library.LIBRDKAFKA: "kohort_demo.librdkafka_member",
}


@dataclass(frozen=True, slots=True)
class Departure:
    """Of a member that was asked to leave; times are seconds since the Unix epoch."""

    asked: float
    gone: float | None = None
    """When its process was seen to have ended, in good order."""


class Crew:
    """A context manager: no member outlives it."""

    def __init__(self, job: Callable[[str], Job], log: Path) -> None:
        """`job`: the arguments of the member of that name."""
        self._job = job
        self._log = log
        self._heard: queue.SimpleQueue[WorkReport] = queue.SimpleQueue()
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._libraries: dict[str, Library] = {}
        self.killed: dict[str, float] = {}
        """When each killed member was killed: seconds since the Unix epoch."""
        self.departures: dict[str, Departure] = {}
        self.reports: list[WorkReport] = []
        """All that the members have said, up to the last `listen`."""

    def start(self, name: str, library: Library) -> None:
        command = [sys.executable, "-m", PROGRAMS[library], *self._job(name).arguments()]
        places = os.pathsep.join(filter(None, (SOURCES, os.environ.get("PYTHONPATH"))))
        with self._log.open("ab") as log:
            member = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": places},
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),  # without its server it could only wait
            )
        self._members[name] = member
        self._libraries[name] = library
        self._readers[name] = threading.Thread(target=self._read, args=(name, member), daemon=True)
        self._readers[name].start()

    def _read(self, name: str, member: subprocess.Popen[bytes]) -> None:
        assert member.stdout is not None
        for line in member.stdout:
            if line.endswith(b"\n"):  # a killed member may leave half a line
                self._heard.put(WorkReport.told(name, json.loads(line)))

    def listen(self) -> Sequence[WorkReport]:
        """All reports so far; DemoError if a member ended as it should not."""
        while not self._heard.empty():
            self.reports.append(self._heard.get())
        for name, member in self._members.items():
            if name not in self.killed and member.poll() is not None:
                self._note_end(name, member.returncode)
        return self.reports

    def _note_end(self, name: str, code: int) -> None:
        departure = self.departures.get(name)
        if departure is None or code != 0:
            how = (
                "although nobody asked it to"
                if departure is None
                else "instead of leaving in good order"
            )
            raise DemoError(f"{name} ended with code {code} {how}: see {self._log}")
        if departure.gone is None:
            self.departures[name] = Departure(departure.asked, time.time())

    @property
    def libraries(self) -> Mapping[str, Library]:
        """What each member ever started runs on, in the order of their start."""
        return self._libraries

    def kill(self, name: str) -> None:
        """`kill -9`: it cannot leave the group, or commit."""
        self._members[name].kill()
        self.killed[name] = time.time()
        self._members[name].wait()

    def ask_to_leave(self, name: str) -> None:
        """SIGTERM: it leaves the group in good order and ends; `departures` tells when it has."""
        self._members[name].send_signal(signal.SIGTERM)
        self.departures[name] = Departure(time.time())

    def leave(self, on_wait: Callable[[], object]) -> None:
        """Ask all to leave; back when they have, and all they said is in `reports`.

        `on_wait` is called again and again meanwhile.
        """
        for name, member in self._members.items():
            if member.poll() is None and name not in self.departures:
                self.ask_to_leave(name)
        deadline = time.monotonic() + LEAVE_SECONDS
        for name, member in self._members.items():
            while member.poll() is None:
                if time.monotonic() > deadline:
                    raise DemoError(
                        f"{name} did not leave within {LEAVE_SECONDS:g} s: see {self._log}"
                    )
                on_wait()
                time.sleep(WAIT_SECONDS)
            self._readers[name].join()  # its output ended with it
        self.listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members.values():
            if member.poll() is None:
                member.kill()
                member.wait()
