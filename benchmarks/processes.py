"""What a server costs: CPU time and resident memory of a process and its children, from `/proc`."""

import os
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """The process and its living descendants; none if it is gone."""
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        try:
            threads = list(Path(f"/proc/{each}/task").iterdir())
            todo += [int(child) for task in threads for child in (task / "children").read_text().split()]
        except OSError:
            continue
        found.append(each)
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time since the start, to 10 ms."""
    return sum(int(field) for each in tree(pid) for field in _stat(each)[11:13]) / _TICKS_PER_S


def spent_seconds(pid: int) -> float:
    """`cpu_seconds`, and what descendants used that have ended and were waited for."""
    return sum(int(field) for each in tree(pid) for field in _stat(each)[11:15]) / _TICKS_PER_S


def age_seconds(pid: int) -> float:
    """How long ago the process was started, to 10 ms."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(_stat(pid)[19]) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Physical memory in use, shared pages included."""
    return sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in tree(pid)) * _PAGE


def send_to_tree(pid: int, number: int) -> None:
    """Send a signal to the process and its descendants."""
    for each in tree(pid):
        os.kill(each, number)


def _stat(pid: int) -> list[str]:
    # The second field is the program's name, which may hold spaces and parentheses. What is left begins with field 3.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
