"""Commands of the pages: what of a block is one, and a bash that runs them."""

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kohort.testing.server_process import ServerProcess

SECONDS = 120


class Example(NamedTuple):
    command: str
    output: str
    """What the page shows below, on standard output, then on standard error."""


def examples(code: str) -> Iterator[Example]:
    """The commands of a block of `console`, each behind a `$`."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = next(at for at, line in enumerate(lines) if not line.endswith("\\\n")) + 1
        yield Example("".join(lines[:end]), "".join(lines[end:]))


def commands(code: str) -> list[str]:
    """The commands of a block of `sh`, one a line."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def words(command: str) -> list[str]:
    """Without its comment."""
    return shlex.split(command, comments=True)


def pattern(text: str) -> str:
    """`…` in the page stands for what differs from run to run."""
    return ".*?".join(map(re.escape, text.split("…")))


def aligned(text: str) -> str:
    """Columns are as wide as what is in them, which differs where the page has `…`."""
    return re.sub(r"(?:\\? )+", " ", text)


class Shell:
    """One bash for a whole page: `$?` is that of the command before."""

    def __init__(self, directory: Path, replaced: Mapping[str, str], **environment: str) -> None:
        """`replaced`: what stands in the commands for what the page names."""
        self._replaced = replaced
        self.directory = directory
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
        home = {"HOME": str(directory), "XDG_STATE_HOME": str(directory)}
        self.environment = {**os.environ, **home, **environment, "PATH": path}
        self._code = 0
        self.serves = False
        """Whether a server was started."""

    def replace(self, text: str) -> str:
        for named, value in self._replaced.items():
            text = text.replace(named, value)
        return text

    def run(self, command: str) -> str:
        """What it prints."""
        process = self._start(command)
        output, errors = process.communicate(timeout=SECONDS)
        self._code = process.returncode
        return output + errors

    def checked(self, command: str) -> str:
        """As `run`, of a command that succeeds."""
        output = self.run(command)
        assert self._code == 0, (command, output)
        return output

    def serve(self, command: str, name: str) -> ServerProcess:
        """Start a server as `kohort serve …` does, in a directory below that of the shell."""
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        self.serves = True
        return ServerProcess(
            *words(self.replace(command))[2:],
            log=directory / "server.log",
            directory=directory,
            environment=self.environment,
        )

    def _start(self, command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", "-c", f"(exit {self._code}); {self.replace(command)}"],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
