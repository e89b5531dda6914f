"""Has a Python process of Spark import PySpark as it is installed, and not from `pyspark.zip`.

Spark puts the archive in front of the path of each Python process, also where it is a part of the
installed PySpark and has the same modules. Python keeps no compiled form of modules in an archive:
each streaming query that reads a Python data source would begin with 0.4 s of compiling. An archive
elsewhere, such as that of a cluster, stays where it is.

The process of a streaming query gets as many threads for numpy as Spark gives its other Python
processes (SPARK-42613). By default those threads spin when numpy is imported, for 0.1 s.

A process that has to connect to Spark does so before it imports PySpark, numpy and PyArrow. Spark
waits 10 s for the connection. On a busy machine the imports take longer: the query would fail, and
leave a process behind that waits (Spark goes on listening, and does not accept).
So little is imported here before it has connected, and nothing if it comes too late: Spark then has
started another process, and the imports would take the time that the other one needs.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping, Sequence
    from typing import Any

AWAITED_S = 15.0
"""Nobody awaits an older process: Spark's 10 s, and some for what it does before they begin."""
ARCHIVE = os.path.join("pyspark", "python", "lib")


def prefer_installed(path: list[str]) -> list[str]:
    """`path` with the archives of each installed PySpark behind the directory it is installed in.

    py4j, which is beside PySpark in an archive of its own, comes from there if it is not installed.
    """
    archives = [
        entry
        for entry in path
        if entry.endswith(".zip")
        and os.path.dirname(entry).endswith(os.sep + ARCHIVE)
        and os.path.dirname(entry).removesuffix(os.sep + ARCHIVE) in path
    ]
    return [entry for entry in path if entry not in archives] + archives


def early_connection(
    command: "Sequence[str]", environment: "Mapping[str, str]"
) -> "_socket.socket | None":
    """The connection that Spark awaits from the process of `command`.

    None if it awaits none, or does not listen any more: PySpark reports that when it connects.
    """
    if not " ".join(command[1:3]).startswith("-m pyspark."):
        return None  # a child of such a process, which has the same environment
    path = environment.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    port = environment.get("PYTHON_WORKER_FACTORY_PORT")
    import _socket  # a tenth of the time of `socket`

    try:
        if path is not None:
            connection = _socket.socket(_socket.AF_UNIX)
            connection.connect(path)
        elif port is not None:
            is_v6 = environment.get("SPARK_PREFER_IPV6", "").lower() == "true"
            connection = _socket.socket(_socket.AF_INET6 if is_v6 else _socket.AF_INET)
            connection.connect(("::1" if is_v6 else "127.0.0.1", int(port)))
        else:
            return None
    except OSError:
        return None
    return connection


def age_s() -> float:
    """Seconds since this process was started; 0.0 where the system has no `/proc` to tell."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, AttributeError, IndexError):
        return 0.0


def hand_over(connection: "_socket.socket") -> None:
    """Give `connection` to the first socket that connects to the same address."""
    import socket

    address, connect = connection.getpeername(), socket.socket.connect

    def connect_or_take(self: socket.socket, to: "Any") -> None:
        if to != address:
            connect(self, to)
            return
        socket.socket.connect = connect  # type: ignore[method-assign]
        os.dup2(connection.fileno(), self.fileno(), inheritable=False)
        connection.close()
        self.settimeout(self.gettimeout())  # the mode is one of the descriptor

    socket.socket.connect = connect_or_take  # type: ignore[assignment,method-assign]


def import_next() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    directory = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != directory]
    from importlib import import_module

    module = sys.modules.pop(__name__)
    try:
        import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = module


if __name__ == "sitecustomize":  # and not kohort.spark.startup.sitecustomize
    sys.path[:] = prefer_installed(sys.path)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if (early := early_connection(sys.orig_argv, os.environ)) is not None:
        if age_s() > AWAITED_S:
            sys.stderr.write("This Python came too late: Spark does not wait for it any more.\n")
            os._exit(1)
        hand_over(early)
    import_next()
