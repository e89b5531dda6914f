"""The command line called in this process: what it prints where, and its exit code."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kohort.cli import app


class Outcome(NamedTuple):
    exit_code: int
    output: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)

    @property
    def rows(self) -> list[dict[str, str]]:
        """Of a plain table."""
        lines = [line.split() for line in self.output.splitlines()]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


Run = Callable[..., Outcome]


def runner(capsys: pytest.CaptureFixture[str], *always: str) -> Run:
    """Runs a command with its words, then `always`."""

    def run(*words: str) -> Outcome:
        capsys.readouterr()
        code = app.run([*words, *always])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
