"""CPU time and memory of a process and its children, from `/proc`."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """The process and its living descendants; empty if it has ended."""
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        try:
            threads = list(Path(f"/proc/{each}/task").iterdir())
        except OSError:
            continue
        found.append(each)
        for thread in threads:
            with suppress(OSError):  # a thread that has ended meanwhile
                todo += map(int, (thread / "children").read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time since the start, to 10 ms, with that of children that have ended."""
    return sum(int(field) for each in tree(pid) for field in _stat(each)[11:15]) / _TICKS_PER_S


class Meter:
    """Context manager that measures CPU time of a process and its descendants.

    It includes descendants that start and end meanwhile. Samples are taken every tenth of a second.
    A process that ends loses its last part, because its parent may not have waited for it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def seconds(self) -> float:
        """User and system time."""
        return sum(at - self._first.get(each, 0.0) for each, at in self._last.items())

    def __enter__(self) -> Self:
        self._first = self._now()
        self._last = dict(self._first)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._last |= self._now()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            self._last |= self._now()

    def _now(self) -> dict[int, float]:
        found = {}
        for each in tree(self._pid):
            try:
                found[each] = sum(int(field) for field in _stat(each)[11:13]) / _TICKS_PER_S
            except OSError:
                continue
        return found


class Memory:
    """Context manager that samples the memory of a process and its descendants.

    What all have together counts shared pages once (PSS). Samples are taken four times a second.
    """

    def __init__(self, pid: int) -> None:
        self.worker_mb = 0.0
        """The largest Python process."""
        self.all_mb = 0.0
        self.cpu_s = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.25):
            total = 0.0
            for pid in tree(self._pid):
                with suppress(OSError, ValueError, IndexError):
                    resident, shared = _memory_mb(pid)
                    total += shared
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    if name.startswith("python"):
                        self.worker_mb = max(self.worker_mb, resident)
            self.all_mb = max(self.all_mb, total)
            with suppress(OSError):
                self.cpu_s = max(self.cpu_s, cpu_seconds(self._pid))


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional memory."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
    }
    return sizes["Rss"] / 1024, sizes["Pss"] / 1024


def age_seconds(pid: int) -> float:
    """Time since the process was started, to 10 ms."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(_stat(pid)[19]) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Physical memory in use, shared pages included."""
    return (
        sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in tree(pid)) * _PAGE
    )


def send_to_tree(pid: int, number: int) -> None:
    """Send a signal to the process and its descendants."""
    for each in tree(pid):
        with suppress(ProcessLookupError):  # one that has ended meanwhile
            os.kill(each, number)


def _stat(pid: int) -> list[str]:
    # The second field is the program's name, which may hold spaces and parentheses. What is left
    # begins with field 3.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
