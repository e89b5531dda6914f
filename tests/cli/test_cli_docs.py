"""Every command in docs/cli.md is run, in order, and prints what the page says."""

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.running import runner
from cli.served import Serve, endpoint
from kohort.cli import acls, configs, topics, transactions, users
from kohort.cli.groups import SUBCOMMANDS, VERBS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


class Example(NamedTuple):
    command: str
    output: str
    """On standard output, then on standard error."""


def examples(text: str) -> Iterator[Example]:
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Example(command, output)


def pattern(text: str) -> str:
    """`…` in the page stands for what differs from run to run."""
    return ".*?".join(map(re.escape, text.split("…")))


class Shell:
    """One bash for the whole page: `$?` is that of the command before."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(directory)}
        self._directory = directory
        self._code = 0

    def run(self, command: str) -> str:
        script = f"(exit {self._code}); {command.replace('localhost:9092', self._bootstrap)}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self._code = done.returncode
        return done.stdout + done.stderr


def test_the_page_has_examples() -> None:
    assert len(list(examples(PAGE.read_text(encoding="utf-8")))) > 10


def test_every_example_prints_what_the_page_says(serve: Serve, tmp_path: Path) -> None:
    host, port = endpoint(serve("--memory", "--dev").address)
    shell = Shell(tmp_path, f"{host}:{port}")
    for example in examples(PAGE.read_text(encoding="utf-8")):
        output = shell.run(example.command)
        assert re.fullmatch(_aligned(pattern(example.output)), _aligned(output)), (example, output)


def _aligned(text: str) -> str:
    """Columns are as wide as what is in them, which differs where the page has `…`."""
    return re.sub(r"(?:\\? )+", " ", text)


def test_every_option_that_the_page_names_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        *("consume", "produce"),
        *(f"groups {name}" for name in SUBCOMMANDS),
        *(f"topics {name}" for name in topics.VERBS),
        *(f"configs {name}" for name in configs.VERBS),
        *(f"transactions {name}" for name in transactions.VERBS),
        *(f"users {name}" for name in users.VERBS),
        *(f"acls {name}" for name in acls.VERBS),
    )
    known = {
        flag
        for command in commands
        for flag in _flags(runner(capsys)(*command.split(), "--help").output)
    }
    assert _flags(PAGE.read_text(encoding="utf-8")) - set(VERBS) - {"--create"} <= known


def _flags(text: str) -> set[str]:
    return set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text))
