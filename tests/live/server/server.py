"""A server in a process of its own, what it costs, and raw connections to it."""

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, request
from kohort.testing.server_process import ServerProcess

SOON = 60
"""Seconds in which even a busy machine starts or ends a server, or gets a response."""


class Server:
    """`kohort serve` on a free port, in memory."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.pid = process.process.pid
        host, _, port = process.address.rpartition(":")
        self.address = (host, int(port))

    @property
    def cpu_s(self) -> float:
        """CPU time of the thread of the event loop."""
        stat = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text()
        return int(stat.split()[0]) / 1e9

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    process = ServerProcess(
        *("--dev", "--listen", "127.0.0.1:0", "--data", str(directory / "data")),
        log=directory / "server.log",
        settings=settings,
    )
    try:
        process.line("listening")
        yield Server(process)
    finally:
        process.kill()


def frame(api: str, version: int, /, *, client_id: str = "budget", **fields: Any) -> bytes:
    """A request as it is sent, with correlation id 1."""
    body = encode(request(BY_NAME[api].key, version, **fields))
    return framed(api, version, body, client_id)


def framed(api: str, version: int, body: bytes, client_id: str = "budget") -> bytes:
    """A request of that body as it is sent, with correlation id 1."""
    head = (
        struct.pack(">hhih", BY_NAME[api].key, version, 1, len(client_id))
        + client_id.encode()
        + (b"\0" if BY_NAME[api].flexible(version) else b"")
    )
    return b"".join((struct.pack(">i", len(head) + len(body)), head, body))
