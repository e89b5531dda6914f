"""Workers: server processes of one machine, each a node of the same cluster.

Worker 0 writes the metadata log and is the controller. The others follow the log, and forward
changes to worker 0. Each has the logs of a fixed share of the partitions, in its own directory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kohort.cluster import worker_of
from kohort.server.metadata import METADATA
from kohort.types import TopicPartition


def worker_index_of(workers: int) -> Callable[[TopicPartition], int]:
    """Function from a partition to the index of the worker that has its log."""
    return lambda partition: 0 if partition == METADATA else worker_of(partition, workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of `count` workers."""

    index: int
    count: int
    sockets: Path
    """Directory of the sockets by which the workers talk to each other; nobody else may enter it.
    """
    is_observed: bool = False
    """Whether it serves the routes of the HTTP port on `http_socket`, for all workers' port."""

    def socket_of(self, index: int) -> str:
        return str(self.sockets / f"{index}.sock")

    @property
    def http_socket(self) -> str | None:
        return http_socket_of(self.sockets, self.index) if self.is_observed else None


def http_socket_of(sockets: Path, index: int) -> str:
    """The path of a worker's HTTP port."""
    return str(sockets / f"{index}.http")
