"""The process of Java that PySpark starts, until PySpark has connected to it.

An interrupt in between would leave it running: PySpark removes the directory in which Java is to
write its port. Java fails to write there, and its other threads keep the process alive. After
PySpark has connected, Java ends with its standard input, which is a pipe from this process.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def java_ends_if_not_connected() -> Iterator[None]:
    """Kill the Java that PySpark starts in the block, if an exception comes before it connects."""
    from pyspark import SparkContext, java_gateway

    gateway: Any = java_gateway
    popen, started = gateway.Popen, []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        with interrupts_deferred():  # else a process that has started might not be in `started`
            process: subprocess.Popen[bytes] = popen(*arguments, **options)
            started.append(process)
        return process

    gateway.Popen = start
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
                process.wait()
        raise
    finally:
        gateway.Popen = popen


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Have SIGINT and SIGTERM handled after the block, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _INTERRUPTS}
    before = {number: handler for number, handler in handlers.items() if handler is not None}
    try:
        for number in before:
            signal.signal(number, lambda received_number, _: received.append(received_number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for received_number in dict.fromkeys(received):
            signal.raise_signal(received_number)
