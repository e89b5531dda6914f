"""Simulated processes: units that run, pause and die on their own."""

import asyncio
from collections import deque
from contextvars import Context, ContextVar
from enum import Enum
from typing import Final

MAX_WORK_S: Final = 0.002


class ProcessState(Enum):
    """Whether a process runs."""

    RUNNING = "running"
    PAUSED = "paused"
    """As by SIGSTOP: its timers and bytes wait."""
    ENDED = "ended"
    """As by SIGKILL: none of its code runs any more, not even `finally` blocks."""


class Process:
    """One process: its callbacks that are ready to run, and its wall clock."""

    def __init__(self, name: str, host: str) -> None:
        """`host` is the simulated machine; each has an address of its own."""
        self.name = name
        self.host = host
        self.ready: deque[asyncio.Handle] = deque()
        """Callbacks in the order in which they became due. An event loop keeps this order."""
        self.state = ProcessState.RUNNING
        self.clock_offset_s = 0.0
        """Difference of its wall clock from the right time."""
        self.max_work_s = MAX_WORK_S
        """Longest time of a function in an executor, such as an fsync."""
        self.context = Context()
        """The context of its code. Whatever that schedules belongs to the process, too."""
        self.context.run(current_process.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state.value}>"

    @property
    def has_ended(self) -> bool:
        """Whether it was killed."""
        return self.state is ProcessState.ENDED


current_process: Final[ContextVar[Process]] = ContextVar("current_process")
"""The process whose code runs."""
