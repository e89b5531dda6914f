"""The parent of several workers: starts and ends them, and shows them as one server.

A worker is a process with a `Broker`. The parent serves no requests of Kafka's protocol and has no
data; it has the HTTP port.
"""

from kohort.server.supervisor.supervisor import Supervisor, spread_data
from kohort.server.supervisor.worker_messages import (
    ALIVE,
    ALIVE_INTERVAL_S,
    END_UNSTARTED,
    ENDING,
    MAX_LINE,
    RELOAD,
    WorkerReport,
    WorkerSetup,
)

__all__ = [
    "ALIVE",
    "ALIVE_INTERVAL_S",
    "ENDING",
    "END_UNSTARTED",
    "MAX_LINE",
    "RELOAD",
    "Supervisor",
    "WorkerReport",
    "WorkerSetup",
    "spread_data",
]
