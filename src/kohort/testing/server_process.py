"""`kohort serve` as a child process, for tests, benchmarks and demonstrations.

    with ServerProcess("--memory", log=tmp_path / "server.log") as server:
        server.address  # HOST:PORT, once it listens

The process is always ended: by `stop`, at the end of the `with` block, and by the kernel if this
process dies first.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from kohort.errors import KohortError
from kohort.testing.child_processes import die_with_parent

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_TAIL_CHARACTERS: Final = 3_000


class ServerProcessError(KohortError):
    """The process ended, or did not write an expected line in time; the text ends with its log."""


class ServerProcess:
    """One process of `kohort serve`, started at once.

    `options` are those of the command. The server listens on a free port of 127.0.0.1 unless they
    name another address. Its output is appended to the file `log`. `KOHORT_*` variables of this
    process are not passed on unless `environment` has them. A process with a `session` of its own
    does not get the terminal's Ctrl-C.
    """

    def __init__(
        self,
        *options: str,
        log: Path,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        session: bool = False,
        at_parent_end: signal.Signals = signal.SIGKILL,
    ) -> None:
        listen = (
            ()
            if any(option.startswith("--listen") for option in options)
            else ("--listen", "127.0.0.1:0")
        )
        values = [f"--set={name}={value}" for name, value in (settings or {}).items()]
        self.log = log
        self._log_from = log.stat().st_size if log.exists() else 0
        self.started = time.monotonic()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kohort", "serve", *listen, *options, *values],
                cwd=directory,
                env=_without_settings() if environment is None else environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=session,
                preexec_fn=die_with_parent(at_parent_end),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def lines(self) -> list[str]:
        """The lines of its log so far."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            *lines, _ = log.read().decode(errors="replace").split("\n")
            return lines

    def line(self, word: str, within_seconds: float = START_SECONDS) -> str:
        """The first line of its log that contains `word`, once it is there.

        Raises ServerProcessError if the process ends without it, or after `within_seconds`.
        """
        deadline = time.monotonic() + within_seconds
        while True:
            ended = self.process.poll() is not None
            for line in self.lines:
                if word in line:
                    return line
            if ended:
                raise ServerProcessError(f"kohort serve ended:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerProcessError(f"kohort serve logged no {word!r}:\n{self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    @property
    def address(self) -> str:
        """HOST:PORT where it listens, once it does. Raises ServerProcessError."""
        return self.logged_address("address")

    @property
    def bootstrap(self) -> str:
        """`bootstrap` for a client: HOST:PORT, as `address`."""
        return self.address

    @property
    def control(self) -> str:
        """HOST:PORT of its control API, once it listens. Raises ServerProcessError."""
        return self.logged_address("control")

    def logged_address(self, field: str) -> str:
        """HOST:PORT of `address`, `advertised`, `http` or `control`, once it listens.

        Raises ServerProcessError.
        """
        line = self.line("listening")
        match = re.search(rf" {field}=(\S+:\d+)", line)
        if match is None:
            raise ServerProcessError(f"no {field} in the line {line!r}")
        return match[1]

    def log_tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.lines)[-_TAIL_CHARACTERS:]

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """The exit code of a process that ends without `stop`. Raises subprocess.TimeoutExpired."""
        return self.process.wait(seconds)

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> int:
        """End it by the signal `how`, by SIGKILL after `seconds`; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def kill(self) -> int:
        """End it by SIGKILL; its exit code."""
        return self.stop(signal.SIGKILL)


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KOHORT_")}
