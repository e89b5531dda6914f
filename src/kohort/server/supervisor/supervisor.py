"""Starts all workers, keeps them running, and ends them."""

import asyncio
import logging
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

from kohort.errors import KohortError
from kohort.log.directory_errors import unusable_directory
from kohort.log.worker_directories import spread
from kohort.server.addresses import Address
from kohort.server.cluster import Worker, worker_index_of
from kohort.server.config import Config, in_postgres
from kohort.server.monitoring import HttpPort, open_http_port
from kohort.server.net import ensure_can_listen
from kohort.server.supervisor.adjacent_ports import free_neighbours
from kohort.server.supervisor.merged_views import MergedViews
from kohort.server.supervisor.worker_config import worker_config
from kohort.server.supervisor.worker_messages import WorkerReport, WorkerSetup
from kohort.server.supervisor.worker_process import WorkerProcess
from kohort.server.tls import Certificates

logger = logging.getLogger("kohort.serve")

_MAX_PATH_LENGTH: Final = 80
"""Bytes of the directory of sockets: the path of a Unix socket has 107 at most."""


class Supervisor:
    """The workers of one configuration, and the HTTP port that shows them.

    Nothing of it serves before `start` returned.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._opened = AsyncExitStack()
        self._workers: list[WorkerProcess] = []
        self._running: list[asyncio.Task[int]] = []
        self._certificates = Certificates(config)
        self.reports: list[WorkerReport] = []
        """Of every worker's first start."""
        self.http_address: Address | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End remaining workers. Idempotent."""
        await self.stop()

    async def start(self) -> None:
        """Start every worker; return when all serve. Raises KohortError."""
        count = self._config.workers
        await ensure_can_listen(self._config, count)
        if self._config["storage"] == "local":
            await asyncio.to_thread(spread_data, self._config)
        ports = {
            listener.name: listener.address.port or free_neighbours(listener.address.host, count)
            for listener in self._config.listeners
        }
        sockets = Path(self._opened.enter_context(_directory_of_sockets()))
        for index in range(count):
            worker = Worker(
                index=index,
                count=count,
                sockets=sockets,
                is_observed=self._config.http_listen is not None,
            )
            setup = WorkerSetup(worker, worker_config(self._config, index, ports))
            self._workers.append(WorkerProcess(setup))
        self._running = [asyncio.create_task(worker.run()) for worker in self._workers]
        await self._all_started()
        await self._open_http_port(sockets)

    async def _all_started(self) -> None:
        """Raises KohortError with what the first worker says that cannot serve."""
        for started in asyncio.as_completed([worker.started for worker in self._workers]):
            report = await started
            if report.refused is not None:
                raise KohortError(report.refused)
        self.reports = [worker.started.result() for worker in self._workers]

    async def _open_http_port(self, sockets: Path) -> None:
        address, https = self._config.http_listen, self._config.https
        if address is None:
            return
        share_storage = in_postgres(self._config["storage"])
        views = MergedViews(self._workers, sockets, share_storage=share_storage)
        self._opened.push_async_callback(self._certificates.close)
        port = HttpPort(
            views.routes,
            public=views.public,
            token=self._config["http.token"],
            tls=None if https is None else self._certificates.open(https),
        )
        self._opened.push_async_callback(port.close)
        self.http_address = await open_http_port(port, address)

    def reload_files(self) -> None:
        """Reload certificates and reopen audit logs, in all processes."""
        self._certificates.reload()
        for worker in self._workers:
            worker.reload()

    async def stop(self) -> int:
        """End every worker cleanly; the exit code of the worst. Idempotent."""
        for worker in self._workers:
            worker.stop()
        codes = await asyncio.gather(*self._running)
        await self._opened.aclose()
        return max((abs(code) for code in codes), default=0)

    def kill(self) -> None:
        """End every worker at once."""
        for worker in self._workers:
            worker.kill()


def spread_data(config: Config) -> None:
    """Move partitions to the directories of this number of workers. Raises KohortError."""
    path = Path(config["log.dir"])
    try:
        spread(path, config.workers, worker_index_of(config.workers))
    except OSError as error:
        raise KohortError(unusable_directory(path, error)) from error


def _directory_of_sockets() -> tempfile.TemporaryDirectory[str]:
    """A new directory that only this user may enter, with a short path."""
    short = len(tempfile.gettempdir().encode()) < _MAX_PATH_LENGTH
    return tempfile.TemporaryDirectory(prefix="kohort-", dir=None if short else "/tmp")  # nosec B108
