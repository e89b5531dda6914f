"""Rests of a thread that computes beside an event loop.

Both share the interpreter. Whenever the loop lets go of it, for each read and write of a socket, a
computing thread takes it, for up to 5 ms. So a busy loop would get a tenth of the time.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

WORK_S: Final = 0.001
"""Longest time between two rests, if `rest` is called often enough."""
_SHORT_REST_S: Final = 0.0001
_BUSY_RESTS: Final = 9
"""Seconds of rest for each second of work if the loop always computes."""
_MAX_WORK_S: Final = 0.01
"""Longest time of work that counts. Longer ones are pauses between calls, or before the first."""


def _clock_of_this_thread() -> Callable[[], float]:
    """A clock of the CPU time of the calling thread, for another thread.

    The time of all threads would not do: Linux adds that of a running thread a few ms later.
    """
    if not hasattr(time, "pthread_getcpuclockid"):  # macOS
        return lambda: time.process_time() - time.thread_time()
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


@dataclass(slots=True)
class Clocks:
    """The clocks of a `Pacing`, all in seconds."""

    now: Callable[[], float] = time.perf_counter
    loop: Callable[[], float] = field(default_factory=_clock_of_this_thread)
    """CPU time of the event loop's thread."""
    sleep: Callable[[float], None] = time.sleep


class Pacing:
    """Rests a thread while the event loop computes: nine tenths of the time if it always does.

    Made in the thread of the loop, which must live as long, and used in another one.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._rested = 0.0
        self._share = 0.0
        """Share of the last rest in which the loop computed."""

    def rest(self) -> None:
        """Sleep if the last rest is `WORK_S` ago; to be called by the thread again and again."""
        clocks = self._clocks
        if (started := clocks.now()) - self._rested <= WORK_S:
            return
        worked = min(started - self._rested, _MAX_WORK_S)
        before = clocks.loop()

        def share() -> float:
            return min((clocks.loop() - before) / (clocks.now() - started), 1.0)

        clocks.sleep(_SHORT_REST_S)
        # A loop that waits for the interpreter takes a good part of a short rest to wake up.
        clocks.sleep(_BUSY_RESTS * worked * max(share(), self._share))
        self._share = share()
        self._rested = clocks.now()
