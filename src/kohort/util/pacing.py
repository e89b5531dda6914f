"""Rests of a thread that computes beside an event loop.

Both share the interpreter. Whenever the loop lets go of it, for each read and write of a socket, a
computing thread takes it, for up to 5 ms. So a busy loop would get a tenth of the time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WORK_S: Final = 0.001
"""Longest time between two rests, if `rest` is called often enough."""
_SHORT_REST_S: Final = 0.0001
_BUSY_RESTS: Final = 4
"""Seconds of rest for each second of work if other threads always compute."""
_MAX_WORK_S: Final = 0.01
"""Longest time of work that counts. Longer ones are pauses between calls, or before the first."""


@dataclass(slots=True)
class Clocks:
    """The clocks of a `Pacing`, all in seconds."""

    now: Callable[[], float] = time.perf_counter
    own: Callable[[], float] = time.thread_time
    """CPU time of the current thread."""
    all: Callable[[], float] = time.process_time
    """CPU time of all threads of the process."""
    sleep: Callable[[float], None] = time.sleep


class Pacing:
    """Rests a thread while others compute: four fifths of the time if they always do."""

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._rested = 0.0

    def rest(self) -> None:
        """Sleep if the last rest is `WORK_S` ago; to be called by the thread again and again."""
        clocks = self._clocks
        if (started := clocks.now()) - self._rested <= WORK_S:
            return
        worked = min(started - self._rested, _MAX_WORK_S)
        before = clocks.all() - clocks.own()
        clocks.sleep(_SHORT_REST_S)
        others = clocks.all() - clocks.own() - before
        # the two clocks are not read at the same moment
        share = min(max(others / (clocks.now() - started), 0.0), 1.0)
        clocks.sleep(_BUSY_RESTS * worked * share)
        self._rested = clocks.now()
