"""Settings of Spark's Python workers, which run one task after the other.

Between two tasks PySpark collects garbage, and traverses all imported modules. That takes 60 ms of
CPU time with numba and as much with pandas, more than reading 100,000 records. The next task may
have to wait for it. Objects created by an import are never garbage, so `settle` excludes them.

Spark's JVM writes a task to its worker in two parts, what to run and with which input. The second
part waits until the first is acknowledged (Nagle's algorithm), and Linux delays that by 40 ms where
it expects data to go back first. `TaskObject` is in the first part, and has it acknowledged.
"""

import gc
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Any

last_settled: tuple[int, int] | None = None
"""The process that was settled, and its number of modules; a forked worker inherits both."""


def settle() -> None:
    """Exclude all current objects from garbage collection; a task calls it after its imports.

    Does nothing if no module was imported since the last call. Tasks import at their end as well:
    with pandas installed, PyArrow does when PySpark passes it a list of objects.
    """
    global last_settled
    if last_settled != (now := (os.getpid(), len(sys.modules))):
        last_settled = now
        gc.collect()
        gc.freeze()


class TaskObject:
    """Base of objects that Spark pickles into each task."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge received TCP data of this process at once (Linux).

    Also sends later small writes without waiting for acknowledgements.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the descriptor of the listing is closed by now
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                _acknowledge(descriptor)


def _acknowledge(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.proto == socket.IPPROTO_TCP:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
