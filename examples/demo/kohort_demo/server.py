"""`kohort serve` as a process of its own: what a user would start by hand."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from kohort.log.directory_errors import unusable_directory
from kohort.testing.server_process import ServerProcess, ServerProcessError
from kohort_demo.errors import DemoError

START_SECONDS = 600.0
STOP_SECONDS = 300.0
RESPONSE_SECONDS = 300.0
"""Long enough for a busy machine; that the process has ended is seen at once."""
INITIAL_DELAY_MS = 500
"""`group.initial.rebalance.delay.ms`: how long the first member waits for others.

Kafka's default is 3 s.
"""


class Server:
    """A context manager: the server is stopped in good order when it ends."""

    def __init__(self, listen: tuple[str, int], data: Path) -> None:
        self._listen = listen
        self.moved_from: int | None = None
        """The requested port, if it was taken."""
        self.address = self.http = ""
        """HOST:PORT, once it listens."""
        # Beside the data directory of the server, which refuses files that are not its own.
        self.log = data / "server.log"
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DemoError(unusable_directory(data, error)) from error
        self._data = data
        self._process = self._serve() if is_free(*listen) else self._serve_elsewhere()

    def _serve_elsewhere(self) -> ServerProcess:
        host, self.moved_from = self._listen
        self._listen = host, 0
        return self._serve()

    def _serve(self) -> ServerProcess:
        host, port = self._listen
        bracketed = f"[{host}]" if ":" in host else host
        return ServerProcess(
            *("--listen", f"{bracketed}:{port}"),
            *("--data", str(self._data / "broker"), "--http", "127.0.0.1:0"),
            log=self.log,
            settings={"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)},
            environment=os.environ,
            # Ctrl-C goes to every process of the terminal's group. The server gets one SIGTERM.
            session=True,
            at_parent_end=signal.SIGTERM,
        )

    def __enter__(self) -> Self:
        try:
            self._wait_until_it_listens()
        except DemoError:
            if self.moved_from is not None or is_free(*self._listen):
                raise
            # Another process took the port while this one started.
            self._process = self._serve_elsewhere()
            self._wait_until_it_listens()
        return self

    def _wait_until_it_listens(self) -> None:
        try:
            self._process.line("listening", START_SECONDS)
            self.address = self._process.address
            self.http = self._process.logged_address("http")
        except ServerProcessError as error:
            self.stop()
            raise DemoError(f"the server did not start: {error}") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """End the server by SIGTERM, by SIGKILL if that is not enough; its exit code."""
        return self._process.stop(seconds=STOP_SECONDS)

    def wait(self) -> None:
        """Wait until the server ends by itself, which is an error: raises DemoError."""
        code = self._process.process.wait()
        raise DemoError(f"the server ended by itself with code {code}:\n{self._process.log_tail()}")

    def assert_running(self) -> None:
        """Raise DemoError if the server has ended."""
        if self._process.process.poll() is not None:
            self.wait()

    def get(self, path: str) -> dict[str, Any] | None:
        """What its HTTP port says at `path`, None while it has nothing to say there (404, 503)."""
        try:
            with urllib.request.urlopen(  # the scheme is http  # nosec B310
                f"http://{self.http}{path}", timeout=RESPONSE_SECONDS
            ) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except urllib.error.HTTPError:
            return None
        except OSError as error:
            self.assert_running()
            raise DemoError(
                f"the server's HTTP port does not respond ({error}): see {self.log}"
            ) from error

    def group(self, group_id: str) -> dict[str, Any] | None:
        return self.get(f"/groups/{quote(group_id, safe='')}")

    def groups(self) -> list[str]:
        """The ids of all groups."""
        return [entry["group_id"] for entry in (self.get("/groups") or {"groups": []})["groups"]]


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
