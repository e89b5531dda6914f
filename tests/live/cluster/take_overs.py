"""Nodes that are replaced while they live, and the negative control: a fence that takes no lock.

Appends are slow here, so that some are always in flight when a node is replaced. Without the lock
they are committed and acknowledged after the next owner has read the log.
"""

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from live.cluster.database import Database
from live.cluster.faults import Fault, Faults
from live.cluster.run import ClusterRun

LOCK = b" for share"
"""What takes the lock in the statements of a fence."""
TAKE_OVERS = 10
_SLOW_APPENDS = """
create function slow() returns trigger language plpgsql as
    'begin perform pg_sleep(0.2); return null; end';
create trigger slow after insert on batches for each statement execute function slow()
"""


class TakeOvers(ClusterRun):
    """Ends after so many of them, or at the first violation."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        locks: bool,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Without `locks` a violation has to be found."""
        database = Database() if locks else UnlockedDatabase()
        super().__init__(directory, seed=seed, report=report, database=database)
        if not locks:
            self.recovery_seconds = 5.0  # some clients never go on

    async def start(self) -> None:
        await super().start()
        self.database.primary.execute(_SLOW_APPENDS)

    def deal(self) -> list[Fault]:
        return [Faults.lose_lock]

    def is_over(self) -> bool:
        return self.faults.total() >= TAKE_OVERS or bool(self.ledger.violations)


class UnlockedDatabase(Database):
    """A database behind a proxy that takes the lock out of every statement."""

    def __init__(self) -> None:
        super().__init__()
        self._proxy = _Proxy(("127.0.0.1", 0), _Connection)
        self._proxy.database = "127.0.0.1", self.primary.port
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://kohort@127.0.0.1:{self._proxy.server_address[1]}/postgres"

    def stop(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        super().stop()


class _Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    database: tuple[str, int]


class _Connection(socketserver.BaseRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        with suppress(OSError), socket.create_connection(self.server.database) as database:
            threading.Thread(target=_answer, args=(database, self.request), daemon=True).start()
            try:
                while asked := self.request.recv(65_536):
                    database.sendall(asked.replace(LOCK, b" " * len(LOCK)))
            finally:
                database.shutdown(socket.SHUT_RDWR)


def _answer(database: socket.socket, node: socket.socket) -> None:
    with suppress(OSError):
        while answer := database.recv(65_536):
            node.sendall(answer)
        node.shutdown(socket.SHUT_RDWR)
