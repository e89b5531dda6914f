"""Packages that are installed while the show goes on: a group is shown before Spark is there.

The command runs on a terminal of its own, so that pip and uv tell how far they are. Packages that
are installed already keep their versions: neither upgrades what satisfies the requirements.
"""

import importlib
import os
import pty
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console

from kohort.testing.child_processes import die_with_parent
from kohort_demo.waiting import waiting

COLUMNS = 160
STOP_SECONDS = 10.0
"""How long a command may clean up after Ctrl-C."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LINE_END = re.compile(r"[\r\n]+")
DRAWN = re.compile(r"[━╸╺█░\u2800-\u28ff]|-{4,}| \.\.\. .*")
"""Bars and spinners."""
AMOUNT = re.compile(r"[\d.]+/[\d.]+ [kMG]B")
"""pip's `210.3/455.9 MB`, below the line that names the file."""
ERROR = re.compile(r"(error: |× )(.*)", re.IGNORECASE)


class Doing(NamedTuple):
    """What a command says it is doing."""

    what: str = ""
    amount: str = ""

    def after(self, line: str) -> "Doing":
        """What it is doing after it wrote this line, which may lack its end."""
        text = " ".join(DRAWN.sub(" ", line).split())
        if amount := AMOUNT.match(text):
            return Doing(self.what, amount[0])
        return Doing(text) if text else self

    def __str__(self) -> str:
        return f"{self.what}, {self.amount}" if self.amount else self.what


class Installation:
    """A context manager: the command is interrupted if it has not ended by then."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start it; its output goes to the file `log`."""
        self.log = log
        self.doing = Doing()
        self.error = ""
        """The first error that it told."""
        self._output, output = pty.openpty()
        termios.tcsetwinsize(output, (24, COLUMNS))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "TERM": "xterm"},
                start_new_session=True,  # Ctrl-C comes from `__exit__`
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        finally:
            os.close(output)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = ""
        with self.log.open("w", buffering=1, encoding="utf-8") as log:
            while found := self._next():
                *ended, rest = LINE_END.split(CONTROL.sub("", rest + found))
                for line in ended:
                    log.write(f"{line.rstrip()}\n")
                    if not self.error and (error := ERROR.match(line.strip())):
                        self.error = error[2]
                for line in (*ended, rest):
                    self.doing = self.doing.after(line)

    def _next(self) -> str:
        """More output; empty at its end."""
        try:
            return os.read(self._output, 65_536).decode(errors="replace")
        except OSError:  # all that had the terminal open have ended
            return ""

    def failure(self, console: Console) -> str | None:
        """Wait until the command has ended, and say meanwhile what it does; why it failed."""
        with waiting(console, lambda: f"Installing Spark: {self.doing}"):
            code = self._process.wait()
            self._reader.join(STOP_SECONDS)
        importlib.invalidate_caches()
        return f"{self.error or f'exit code {code}'}; see {self.log}" if code else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(STOP_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
        self._reader.join(STOP_SECONDS)
        os.close(self._output)
